// Package tree is the verb tree: an application from its components down to its pods, with
// the health of each object.
//
// Safety rule: what was not read is not shown as healthy.
package tree

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/look"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "tree APPLICATION",
		Short: "Show an application from its components down to its pods",
		Example: `  kubectl holdfast tree shop
  kubectl holdfast tree shop -o json`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return run(cmd.Context(), env, &o, cmd, args)
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatPath)
	return cmd
}

func run(ctx context.Context, env *cli.Env, o *cli.Output, cmd *cobra.Command, args []string) error {
	l, err := look.For(ctx, env, cmd.ErrOrStderr(), args, true)
	if err != nil {
		return err
	}
	if o.Machine() {
		err = o.Print(cmd.OutOrStdout(), l.Answer("Tree"))
	} else {
		Print(env.Terminal(cmd.OutOrStdout()), l, env.Now())
	}
	if err == nil && !l.Ready {
		err = cli.ErrNotReady
	}
	return err
}

// Print shows an application from its components down to its pods.
func Print(out cli.Terminal, l look.Look, now time.Time) {
	fmt.Fprintln(out, l.Title(now))
	table(out, l).Print(out)
	for _, missed := range l.Missed {
		fmt.Fprintf(out, "not looked at: %s\n", missed)
	}
}

func table(out cli.Terminal, l look.Look) cli.Table {
	t := cli.Table{Columns: []string{"OBJECT", "HEALTH", "WHY"}, NoHeaders: true, Paint: func(column int, text string) string {
		if column != 1 {
			return text
		}
		return out.Paint(look.Colour(health.Status(text)), text)
	}}
	for i, c := range l.Components {
		head, tail := "├─ ", "│  "
		if i == len(l.Components)-1 {
			head, tail = "└─ ", "   "
		}
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%s%s (%s)", head, c.Name, c.Type), string(c.Health), c.Message})
		t.Rows = append(t.Rows, rows(c.Tree, tail)...)
	}
	return t
}

func rows(nodes []view.Node, indent string) [][]string {
	var out [][]string
	for i, n := range nodes {
		head, tail := "├─ ", "│  "
		if i == len(nodes)-1 {
			head, tail = "└─ ", "   "
		}
		out = append(out, []string{fmt.Sprintf("%s%s%s/%s", indent, head, n.Object.Kind, n.Object.Name), string(n.Health), n.Message})
		out = append(out, rows(n.Children, indent+tail)...)
	}
	return out
}
