// Package status implements kubectl holdfast status, which prints the health of an application and its
// components, once or after each change.
//
// Safety rule: status -w reports when its output can be outdated.
package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// options has the flags.
type options struct {
	cli.Output
	watch bool
}

// Command returns the status command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "status APPLICATION",
		Short: "Show the health of an application and its components",
		Long: `Show the health of an application and its components, with the number of ready pods and why a component
is not ready. The exit code is 2 if the application is not ready.`,
		Example: `  kubectl holdfast status shop
  kubectl holdfast status shop -w`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			if o.watch {
				return o.watchStatus(cmd.Context(), env, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.printOnce(cmd.Context(), env, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "Print the status after each change until the application is deleted")
	return cmd
}

func (o *options) printOnce(ctx context.Context, env *cli.Env, args []string, out, errOut io.Writer) error {
	l, err := collect.FromArgs(ctx, env, errOut, args, false)
	if err != nil {
		return err
	}
	if err := o.print(env, l, out); err != nil {
		return err
	}
	if !l.Ready {
		return cli.ErrNotReady
	}
	return nil
}

// print prints a result in the selected format.
func (o *options) print(env *cli.Env, l collect.Result, out io.Writer) error {
	switch {
	case o.IsMachineReadable():
		return o.Print(out, l.Document("Status"))
	case o.Format == cli.FormatName:
		for _, c := range l.Components {
			fmt.Fprintln(out, c.Name)
		}
		return nil
	}
	o.printTable(env, l, env.Terminal(out))
	return nil
}

// printTable prints the status as a table.
func (o *options) printTable(env *cli.Env, l collect.Result, t cli.Terminal) {
	l.PrintTitle(t, env.Now())
	// Messages that the table shows are not repeated above it.
	shownInTable := slices.ContainsFunc(l.Components, func(c inspect.Component) bool { return c.Message != "" && strings.Contains(l.Message, c.Message) })
	if !l.Ready && l.Message != "" && !shownInTable {
		for _, line := range cli.Wrap(l.Message, t.Width) {
			fmt.Fprintln(t, line)
		}
	}
	fmt.Fprintln(t)
	table := cli.Table{Columns: []string{"COMPONENT", "TYPE", "HEALTH", "PODS", "MESSAGE"}, StackLastColumn: true}
	for _, c := range l.Components {
		table.Rows = append(table.Rows, []string{c.Name, string(c.Type), string(c.Health), collect.ReadyPods(c), c.Message})
	}
	table.Colorize = func(column int, text string) string {
		if column != 2 {
			return text
		}
		return t.Colorize(collect.HealthColor(health.Status(text)), text)
	}
	table.Print(t)
	l.PrintUnread(t)
	if len(l.Causes) > 0 {
		fmt.Fprintf(t, "\nFor details: kubectl holdfast why %s/%s -n %s\n", strings.ToLower(l.Kind), l.Name, l.Namespace)
	}
}
