// Package suspend is the verbs suspend and resume: the operator takes its hands off an
// application, or off one of its components, and comes back.
//
// Safety rule: it sets and unsets spec.suspend and writes nothing else. What runs is not
// touched.
package suspend

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command is the verb suspend.
func Command(env *cli.Env) *cobra.Command {
	return command(env, true, &cobra.Command{
		Use:   "suspend APP [--component C]",
		Short: "Take the operator's hands off an application",
		Long: `Take the operator's hands off an application, or off one component of an AppStack. What runs keeps
running; nothing is repaired or updated until kubectl holdfast resume.`,
		Example: `  kubectl holdfast suspend shop
  kubectl holdfast suspend shop --component web`,
	})
}

// ResumeCommand is the verb resume.
func ResumeCommand(env *cli.Env) *cobra.Command {
	return command(env, false, &cobra.Command{
		Use:   "resume APP [--component C]",
		Short: "Let the operator go on with an application",
		Long: `Let the operator go on with an application that is suspended, or with one component of an AppStack:
what has changed meanwhile is repaired, and edits of the spec are applied.`,
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
	cmd.Flags().StringVar(&component, "component", "", "only this component of an AppStack")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	return cmd
}
