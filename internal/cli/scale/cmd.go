// Package scale is the verb scale: it sets how many pods of an application run.
//
// Safety rule: it sets replicas and writes nothing else. A database that is one server is not
// scaled, and what an autoscaler decides is left to it.
package scale

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var component string
	var replicas int32
	cmd := &cobra.Command{
		Use:   "scale APP --replicas N [--component C]",
		Short: "Set how many pods of an application run",
		Long: `Set how many pods of an AppService run, of a component of an AppStack, or of the front or identity
of a CloudManager. What is scaled by its autoscaling is refused.`,
		Example: `  kubectl holdfast scale hello --replicas 3
  kubectl holdfast scale shop --component web --replicas 3 && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, replicas, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "the component of an AppStack or a CloudManager")
	cmd.Flags().Int32Var(&replicas, "replicas", 0, "how many pods")
	_ = cmd.MarkFlagRequired("replicas")                                   // fails only without the flag
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // the same
	return cmd
}
