// Package watch implements kubectl holdfast watch, which prints changes of objects of any kind, field by
// field and with their field managers.
//
// Safety rule: each watch event is printed once and in order, even if the connection is lost. If events
// were lost, the output reports the time range. It only reads, and it never prints values of Secrets or
// rootPass.
package watch

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	target
	printExisting bool
	maxChanges    int
	timeout       time.Duration
	output        cli.Output
}

// Command returns the watch command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "watch KIND[.GROUP] [NAME]",
		Short: "Print changes of objects of any kind",
		Long: `Print changes of objects of any kind as they happen, with the old and new value of each field and the
field manager that wrote it.

After a lost connection the watch resumes at the last event. If the API server no longer has the events
since then, the command lists the objects again, prints the differences as missed and reports the time
range of the lost events. Values of Secrets and root passwords are never printed.

With a selector, an object that no longer matches is shown as DELETED, because the API server sends the
same event in both cases.`,
		Example: `  kubectl holdfast watch appstacks
  kubectl holdfast watch deployment.apps web -n shop
  kubectl holdfast watch pods -A -l app.kubernetes.io/managed-by=holdfast
  kubectl holdfast watch configmaps -o json --timeout 30s`,
		Args: cobra.RangeArgs(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return cli.WithPrefix(complete(env, args), toComplete), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			if err := o.parse(args); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Watch objects in all namespaces")
	f.StringVarP(&o.labels, "selector", "l", "", "Label selector, for example app=web")
	f.StringVar(&o.fields, "field-selector", "", "Field selector, for example metadata.name=web")
	f.BoolVar(&o.printExisting, "existing", false, "Print existing objects first, as EXISTS")
	f.IntVar(&o.maxChanges, "count", 0, "Exit after this number of changes. 0 watches until Ctrl-C")
	f.DurationVar(&o.timeout, "timeout", 0, "Exit after this duration, for example 30s. With --count, the exit code is then 2")
	o.output.AddFlag(f, cli.FormatTable, cli.FormatJSON)
	return cmd
}

func (o options) validate() error {
	if o.maxChanges < 0 {
		return fmt.Errorf("--count %d is negative; use the number of changes after which to exit", o.maxChanges)
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout %s is negative; use a duration like 30s", o.timeout)
	}
	return o.output.Validate()
}
