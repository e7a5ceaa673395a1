// Package restart is the verb restart: it replaces the pods of an application, in the way in
// which an update does.
//
// Safety rule: it sets update.restartedAt and writes nothing else. Jobs do not run again.
package restart

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var component string
	cmd := &cobra.Command{
		Use:   "restart APP [--component C]",
		Short: "Replace the pods of an application",
		Long: `Replace all pods of an AppService or an AppStack, or those of one component. It goes as an update
does: in the order of the dependencies, and without an outage where there are several pods. Jobs do
not run again.`,
		Example: `  kubectl holdfast restart shop
  kubectl holdfast restart shop --component web && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "only this component of an AppStack")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	return cmd
}
