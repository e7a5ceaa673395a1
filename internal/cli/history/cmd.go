// Package history is the verb history: which specs an application has had, and what changed
// from one to the next.
//
// Safety rule: it only reads. Passwords are not remembered, and would not be shown.
package history

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	output   cli.Output
	revision int64
	diff     string
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "history APP",
		Short: "List the specs that an application has had, and what changed",
		Long: `List the specs that an AppStack or a CloudManager has had, the oldest first: whether everything
was ready with it, and what changed against the one before. Going back to an earlier spec gives
that one a new number.`,
		Example: `  kubectl holdfast history shop
  kubectl holdfast history shop --revision 3   # the spec
  kubectl holdfast history shop --diff 3       # what is different now
  kubectl holdfast history shop --diff 3,5     # what is different in revision 5`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.output.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.output.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "print the spec of this revision")
	cmd.Flags().StringVar(&o.diff, "diff", "", "print how the current spec differs from revision N, or with N,M how M differs from N")
	cmd.MarkFlagsMutuallyExclusive("revision", "diff")
	return cmd
}
