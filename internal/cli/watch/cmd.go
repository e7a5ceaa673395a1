// Package watch is the verb watch: it prints every change of the objects of any kind as it
// happens, field by field and with who made it.
//
// Safety rule: it says what it does not know. What it was told is printed once and in order,
// whatever becomes of the connection; where the API server no longer has what happened, it
// says so and since when. It reads only, and no value of a Secret, nor a rootPass, is printed.
package watch

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	target
	printExisting bool
	maxChanges    int
	timeout       time.Duration
	output        cli.Output
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "watch KIND[.GROUP] [NAME]",
		Short: "Print every change of objects of any kind, and who made it",
		Long: `Print every change of objects of any kind as it happens: which fields changed from what to
what, and who wrote them.

A lost connection is taken up again where it ended. When the API server no longer has what
happened since then, the objects are listed anew, what differs is printed as missed, and the
time of blindness is named. Values of Secrets and root passwords are never printed.

With a selector, an object that no longer matches is shown as DELETED: the API server makes
no difference between the two.`,
		Example: `  kubectl holdfast watch appstacks
  kubectl holdfast watch deployment.apps web -n shop
  kubectl holdfast watch pods -A -l app.kubernetes.io/managed-by=holdfast
  kubectl holdfast watch configmaps -o json --for 30s`,
		Args: cobra.RangeArgs(1, 2),
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
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	f.StringVarP(&o.labels, "selector", "l", "", "only objects with these labels, as in kubectl get")
	f.StringVar(&o.fields, "field-selector", "", "only objects with these fields, as in kubectl get")
	f.BoolVar(&o.printExisting, "existing", false, "print first what exists already, as EXISTS")
	f.IntVar(&o.maxChanges, "until", 0, "end after so many changes; 0 means that Ctrl-C ends it")
	f.DurationVar(&o.timeout, "for", 0, "end after so long; with --until the exit code is then 2")
	o.output.AddFlag(f, cli.FormatTable, cli.FormatJSON)
	return cmd
}

func (o options) validate() error {
	if o.maxChanges < 0 {
		return fmt.Errorf("--until %d is not a number of changes; use 1 or more", o.maxChanges)
	}
	if o.timeout < 0 {
		return fmt.Errorf("--for %s is over already; use a duration like 30s", o.timeout)
	}
	return o.output.Validate()
}
