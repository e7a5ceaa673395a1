package collect

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// FromArgs reads the application that the arguments name.
func FromArgs(ctx context.Context, env *cli.Env, errOut io.Writer, args []string, forTree bool) (Result, error) {
	namespace, err := env.Namespace()
	if err != nil {
		return Result{}, err
	}
	defer cli.Progress(errOut, fmt.Sprintf("Reading namespace %s", namespace))()
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return Result{}, err
	}
	return Application(ctx, c, app, forTree, env.Now())
}
