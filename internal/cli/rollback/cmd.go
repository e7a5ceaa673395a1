// Package rollback is the verb rollback: it gives an application a spec again that it had
// before.
//
// Safety rule: it writes the object of the application and nothing else, and only as somebody
// has seen it. Volumes, passwords and the version of a database stay as they are, whatever
// the earlier spec said about them.
package rollback

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	revision int64
	yes      bool
	dryRun   bool
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "rollback APP [--to-revision N]",
		Short: "Go back to an earlier spec of an application",
		Long: `Go back to an earlier spec of an AppStack or a CloudManager: the last one with which everything was
ready, or the one of --to-revision. What will change is printed first, and confirmed by you.

These stay as they are now: sizes and classes of volumes, the image of a CloudManager's database,
passwords and where they come from, deletionPolicy, suspend and the time of the last restart. No
data is lost: a component that the earlier spec does not have ends, its volumes and credentials are
kept, and it finds them again when it is added again. With deletionPolicy Delete, which would delete
them, it is refused.`,
		Example: `  kubectl holdfast rollback shop --dry-run
  kubectl holdfast rollback shop
  kubectl holdfast rollback shop --to-revision 3 --yes`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, o, args, streams{cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), env.IsInteractive(cmd.InOrStdin())})
		},
	}
	cmd.Flags().Int64Var(&o.revision, "to-revision", 0, "the number of the revision; kubectl holdfast history has them (default: the last healthy one that is not the current one)")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print what would change, and change nothing")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return cmd
}
