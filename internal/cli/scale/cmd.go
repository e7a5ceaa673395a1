// Package scale implements kubectl holdfast scale, which sets the number of replicas.
//
// Safety rule: it sets replicas in the spec or in spec.operations, and writes nothing else. It rejects single-server databases and
// components with autoscaling.
package scale

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command returns the scale command.
func Command(env *cli.Env) *cobra.Command {
	var component string
	var replicas int32
	cmd := &cobra.Command{
		Use:   "scale APPLICATION --replicas N [--component C]",
		Short: "Set the number of replicas of an application",
		Long: `Set the number of replicas of an AppService, of a component of an AppStack, or of the front or identity
of a CloudManager. Components with autoscaling and single-server databases are rejected. A manifest that sets
replicas restores its own number when it is applied again; a manifest that omits replicas keeps the number.`,
		Example: `  kubectl holdfast scale hello --replicas 3
  kubectl holdfast scale shop --component web --replicas 3 && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, replicas, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "Component of an AppStack or a CloudManager")
	cmd.Flags().Int32Var(&replicas, "replicas", 0, "New number of replicas (required)")
	_ = cmd.MarkFlagRequired("replicas")                                   // fails only without the flag
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // the same
	return cmd
}
