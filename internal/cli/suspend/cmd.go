// Package suspend implements kubectl holdfast suspend and resume, which pause and resume the
// reconciliation of an application or of one component.
//
// Safety rule: it sets and unsets spec.suspend or suspend in spec.operations, and writes nothing else. Pods keep running.
package suspend

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command returns the suspend command.
func Command(env *cli.Env) *cobra.Command {
	return command(env, true, &cobra.Command{
		Use:   "suspend APPLICATION [--component C]",
		Short: "Pause the reconciliation of an application",
		Long: `Pause the reconciliation of an application, or of one component. Pods keep running; drift
is not corrected and updates are not applied until kubectl holdfast resume.`,
		Example: `  kubectl holdfast suspend shop
  kubectl holdfast suspend shop --component web`,
	})
}

// ResumeCommand returns the resume command.
func ResumeCommand(env *cli.Env) *cobra.Command {
	return command(env, false, &cobra.Command{
		Use:   "resume APPLICATION [--component C]",
		Short: "Resume the reconciliation of a suspended application",
		Long: `Resume the reconciliation of a suspended application, or of one component. The operator corrects drift and
applies changes of the spec.`,
		Example: `  kubectl holdfast resume shop
  kubectl holdfast resume shop --component web`,
	})
}

func command(env *cli.Env, suspend bool, cmd *cobra.Command) *cobra.Command {
	var component string
	cmd.ValidArgsFunction = env.CompleteApplication
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return run(cmd.Context(), env, suspend, component, args, cmd.OutOrStdout())
	}
	cmd.Flags().StringVar(&component, "component", "", "Component of an AppStack or a CloudManager. Default: the whole application")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	return cmd
}
