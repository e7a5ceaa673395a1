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
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return err
	}
	var r edit.Restarted
	_, err = cli.Writer(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		r, err = edit.Restart(app, spec, component, env.Now())
		return true, err
	})
	if err != nil {
		return cli.Explained(err)
	}
	if len(r.Suspended) > 0 {
		fmt.Fprintf(out, "%s Suspended, so only after kubectl holdfast resume: %s.\n", r, strings.Join(r.Suspended, ", "))
		return nil
	}
	fmt.Fprintf(out, "%s %s\n", r, cli.FollowIt(app))
	return nil
}
