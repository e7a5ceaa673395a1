package suspend

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

func run(ctx context.Context, env *cli.Env, suspend bool, component string, args []string, out io.Writer) error {
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return err
	}
	var s edit.Suspended
	_, err = cli.Writer(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		s, err = edit.Suspend(app, spec, component, suspend)
		return s.Changed, err
	})
	if err != nil {
		return cli.Explained(err)
	}
	fmt.Fprintln(out, sentence(app, s))
	return nil
}

func sentence(app application.Application, s edit.Suspended) string {
	words := s.Words(func(component string) string {
		command := fmt.Sprintf("kubectl holdfast resume %s -n %s", app.GetName(), app.GetNamespace())
		if component != "" {
			command += " --component " + component
		}
		return command
	})
	if s.GoesOn() {
		words += " " + cli.FollowIt(app)
	}
	return words
}
