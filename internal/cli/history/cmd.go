// Package history implements kubectl holdfast history, which lists the revisions of an application and
// the changes between them.
//
// Safety rule: it only reads. Revisions contain no passwords, and the output is redacted.
package history

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	output   cli.Output
	revision int64
	diff     string
}

// Command returns the history command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "history APPLICATION",
		Short: "List the revisions of an application and their changes",
		Long: `List the revisions of an AppStack or a CloudManager, the oldest first, with their changes and whether
all components became ready. A rollback to an earlier revision gives that revision a new number.`,
		Example: `  kubectl holdfast history shop
  kubectl holdfast history shop --revision 3   # print the spec of revision 3
  kubectl holdfast history shop --diff 3       # compare revision 3 with the current spec
  kubectl holdfast history shop --diff 3,5     # compare revision 3 with revision 5`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.output.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "Print the spec of this revision")
	cmd.Flags().StringVar(&o.diff, "diff", "",
		"Compare revisions: N compares revision N with the current spec, N,M compares revision N with revision M")
	cmd.MarkFlagsMutuallyExclusive("revision", "diff")
	_ = cmd.RegisterFlagCompletionFunc("revision", env.CompleteRevision) // fails only without the flag
	_ = cmd.RegisterFlagCompletionFunc("diff", env.CompleteRevision)     // the same
	return cmd
}
