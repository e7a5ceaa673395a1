// Package rotate implements kubectl holdfast rotate, which rotates the generated passwords of databases.
//
// Safety rule: it writes a request to spec.operations and nothing else. It never reads a password.
package rotate

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

// Command returns the rotate command.
func Command(env *cli.Env) *cobra.Command {
	var component string
	cmd := &cobra.Command{
		Use:   "rotate APPLICATION [--component C]",
		Short: "Rotate the generated passwords of databases",
		Long: `Rotate the generated passwords of the databases of an AppStack or a CloudManager. Clients stay connected:
the old password stays valid until all clients that are bound to the database have the new one. To
rotate a password from your own Secret, change the Secret.`,
		Example: `  kubectl holdfast rotate shop
  kubectl holdfast rotate shop --component db && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "Database component. Default: all databases")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	return cmd
}

func run(ctx context.Context, env *cli.Env, component string, args []string, out io.Writer) error {
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	message := ""
	_, err = cli.NewWriter(c).Edit(ctx, app, func(spec map[string]any) (bool, error) {
		message, err = edit.Rotate(app, spec, component, env.Now())
		return true, err
	})
	if err != nil {
		return cli.WithHint(err)
	}
	fmt.Fprintf(out, "%s %s\n", message, cli.FollowHint(app))
	return nil
}
