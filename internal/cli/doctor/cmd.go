// Package doctor implements kubectl holdfast doctor, which checks the installation, the permissions of
// the operator and the permissions of the caller.
//
// Safety rule: it only reads and creates access reviews. Checks that could not be completed are Unknown,
// never OK.
package doctor

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	output    cli.Output
	namespace string
}

// Command returns the doctor command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation, the operator's permissions and yours",
		Long: `Check the installation: the CRDs, the operator and its leader election, the application center and its
version, the admission policies, the permissions of the operator, and your permissions for the
commands of this plugin.

The exit code is 0 if all checks pass, 2 if a check finds a problem, and 1 if there are no problems but
a check could not be completed.`,
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
	cmd.Flags().StringVar(&o.namespace, "operator-namespace", cli.OperatorNamespace, "Namespace of the operator")
	return cmd
}
