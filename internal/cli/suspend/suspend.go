package suspend

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

func run(ctx context.Context, env *cli.Env, suspend bool, component string, args []string, out io.Writer) error {
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	var s edit.SuspendResult
	_, err = cli.NewWriter(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		s, err = edit.Suspend(app, spec, component, suspend)
		return s.Changed, err
	})
	if err != nil {
		return cli.WithHint(err)
	}
	fmt.Fprintln(out, resultMessage(app, s))
	return nil
}

func resultMessage(app appkind.Application, s edit.SuspendResult) string {
	message := s.Message(func(component string) string {
		command := fmt.Sprintf("kubectl holdfast resume %s -n %s", app.GetName(), app.GetNamespace())
		if component != "" {
			command += " --component " + component
		}
		return command
	})
	if s.Resumes() {
		message += " " + cli.FollowHint(app)
	}
	return message
}
