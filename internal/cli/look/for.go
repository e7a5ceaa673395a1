package look

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// For looks at the application that the arguments of a verb name.
func For(ctx context.Context, env *cli.Env, errOut io.Writer, args []string, whole bool) (Look, error) {
	namespace, err := env.Namespace()
	if err != nil {
		return Look{}, err
	}
	defer cli.Progress(errOut, fmt.Sprintf("Looking at namespace %s", namespace))()
	c, app, err := env.Application(ctx, args)
	if err != nil {
		return Look{}, err
	}
	return At(ctx, c, app, whole, env.Now())
}
