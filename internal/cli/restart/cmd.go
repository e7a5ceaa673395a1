// Package restart implements kubectl holdfast restart, which restarts the pods of an application with a
// rollout.
//
// Safety rule: it writes a request to spec.operations and nothing else. Jobs do not run again.
package restart

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command returns the restart command.
func Command(env *cli.Env) *cobra.Command {
	var component string
	cmd := &cobra.Command{
		Use:   "restart APPLICATION [--component C]",
		Short: "Restart the pods of an application",
		Long: `Restart all pods of an application, or the pods of one component. Restarts follow the rollout order of an
update. Components with several pods stay available. Jobs do not run again. Applying the manifest of the
application again does not repeat the restart.`,
		Example: `  kubectl holdfast restart shop
  kubectl holdfast restart shop --component web && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "Component of an AppStack or a CloudManager. Default: the whole application")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	return cmd
}
