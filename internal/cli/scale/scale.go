package scale

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

func run(ctx context.Context, env *cli.Env, component string, replicas int32, args []string, out io.Writer) error {
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return err
	}
	var s edit.Scaled
	_, err = cli.Writer(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		s, err = edit.Scale(app, spec, component, replicas)
		return s.Changed(), err
	})
	switch {
	case err != nil:
		return cli.Explained(err)
	case !s.Changed():
		fmt.Fprintln(out, s)
	case s.Suspended:
		fmt.Fprintf(out, "%s It is suspended, so only after kubectl holdfast resume.\n", s)
	default:
		fmt.Fprintf(out, "%s %s\n", s, cli.FollowIt(app))
	}
	return nil
}
