// Package doctor is the verb doctor: is Holdfast installed, does the operator run, and may it
// and the caller do what they need to.
//
// Safety rule: it only reads and asks who may do what. What it could not see is Unknown, never
// fine.
package doctor

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	output    cli.Output
	namespace string
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation: kinds, operator, leader, center, policies, rights",
		Long: `Check the installation: are the kinds there, does the operator run and lead, is the application
center there and of the same version, are the policies in place, may the operator do what it must,
and may you do what the verbs of this plugin need.

The exit code is 0 when all is fine, 2 when there is a problem and 1 when there is none but something
could not be looked at.`,
		Example: `  kubectl holdfast doctor
  kubectl holdfast doctor --operator-namespace platform -o wide`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.output.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONPath)
	cmd.Flags().StringVar(&o.namespace, "operator-namespace", cli.OperatorNamespace, "where the operator runs")
	return cmd
}
