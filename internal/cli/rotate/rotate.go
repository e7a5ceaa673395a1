// Package rotate is the verb rotate: it asks for other passwords of databases.
//
// Safety rule: it sets rotation.requestedAt and writes nothing else; no password passes through it.
package rotate

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var component string
	cmd := &cobra.Command{
		Use:   "rotate APP [--component C]",
		Short: "Replace the generated passwords of databases",
		Long: `Replace the generated passwords of the database of an AppStack or a CloudManager. Everybody stays
connected: for a while the server takes both, until all that are bound to it have been told. Passwords
that come from a Secret of yours are changed there.`,
		Example: `  kubectl holdfast rotate shop
  kubectl holdfast rotate shop --component db && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "only this database of an AppStack")
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
