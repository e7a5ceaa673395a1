package scale

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

func run(ctx context.Context, env *cli.Env, component string, replicas int32, args []string, out io.Writer) error {
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	var s edit.ScaleResult
	_, err = cli.NewWriter(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		s, err = edit.Scale(app, spec, component, replicas)
		return s.Changed(), err
	})
	switch {
	case err != nil:
		return cli.WithHint(err)
	case !s.Changed():
		fmt.Fprintln(out, s)
	case s.Suspended:
		fmt.Fprintf(out, "%s It is suspended: the change takes effect after kubectl holdfast resume.\n", s)
	default:
		fmt.Fprintf(out, "%s %s\n", s, cli.FollowHint(app))
	}
	return nil
}
