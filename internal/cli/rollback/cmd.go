// Package rollback implements kubectl holdfast rollback, which restores an earlier spec of an application.
//
// Safety rule: it writes only the application, and only if it is unchanged since it was read. Volumes,
// passwords and the version of a database do not change.
package rollback

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	revision int64
	yes      bool
	dryRun   bool
}

// Command returns the rollback command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "rollback APPLICATION [--to-revision N]",
		Short: "Roll an application back to an earlier revision",
		Long: `Roll an AppStack or a CloudManager back to the last revision that became ready, or to the revision of
--to-revision. The command prints the changes and asks for confirmation.

A rollback does not change sizes and classes of volumes, the image of a CloudManager's database,
passwords and their sources, deletionPolicy, suspend and the time of the last restart. No data is
lost: volumes and credentials of components that the earlier spec does not have are retained, and
reused if the component is added again. With deletionPolicy Delete, which would delete them, the
rollback is rejected.`,
		Example: `  kubectl holdfast rollback shop --dry-run
  kubectl holdfast rollback shop
  kubectl holdfast rollback shop --to-revision 3 --yes`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, o, args, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), env.IsInteractive(cmd.InOrStdin())})
		},
	}
	cmd.Flags().Int64Var(&o.revision, "to-revision", 0,
		"Revision to roll back to, as listed by kubectl holdfast history. Default: the last revision before the current one that became ready")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for confirmation")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "Only print the changes")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
	_ = cmd.RegisterFlagCompletionFunc("to-revision", env.CompleteRevision) // fails only without the flag
	return cmd
}
