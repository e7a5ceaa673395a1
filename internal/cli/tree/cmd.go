// Package tree implements kubectl holdfast tree, which prints the objects of an application as a tree
// with the health of each object.
//
// Safety rule: objects that could not be read are Unknown, not Healthy.
package tree

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// Command returns the tree command.
func Command(env *cli.Env) *cobra.Command {
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "tree APPLICATION",
		Short: "Show the objects of an application as a tree",
		Long: `Show all objects of an application, from its components down to its pods, with the health of each
object. The exit code is 2 if the application is not ready.`,
		Example: `  kubectl holdfast tree shop
  kubectl holdfast tree shop -o json`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, &o, cmd, args)
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONPath)
	return cmd
}

func run(ctx context.Context, env *cli.Env, o *cli.Output, cmd *cobra.Command, args []string) error {
	l, err := collect.FromArgs(ctx, env, cmd.ErrOrStderr(), args, true)
	if err != nil {
		return err
	}
	if o.IsMachineReadable() {
		err = o.Print(cmd.OutOrStdout(), l.Document("Tree"))
	} else {
		Print(env.Terminal(cmd.OutOrStdout()), l, env.Now())
	}
	if err == nil && !l.Ready {
		err = cli.ErrNotReady
	}
	return err
}

// Print prints the objects of an application as a tree.
func Print(out cli.Terminal, l collect.Result, now time.Time) {
	l.PrintTitle(out, now)
	printRows(out, l)
	l.PrintUnread(out)
}
