package restart

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

func run(ctx context.Context, env *cli.Env, component string, args []string, out io.Writer) error {
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	var r edit.RestartResult
	_, err = cli.NewWriter(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		r, err = edit.Restart(app, spec, component, env.Now())
		return true, err
	})
	if err != nil {
		return cli.WithHint(err)
	}
	if len(r.Suspended) > 0 {
		fmt.Fprintf(out, "%s Suspended components restart after kubectl holdfast resume: %s.\n", r, strings.Join(r.Suspended, ", "))
		return nil
	}
	fmt.Fprintf(out, "%s %s\n", r, cli.FollowHint(app))
	return nil
}
