// Package why implements kubectl holdfast why, which explains why an application is not ready: the chain
// of waiting components down to the cause, with evidence and a fix.
//
// Safety rule: causes come from package explain only. Messages of other programs are shown as evidence.
package why

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// options has the flags.
type options struct {
	cli.Output
	all   bool
	rules string
}

// Command returns the why command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "why APPLICATION",
		Short: "Explain why an application is not ready",
		Long: `Explain why an application is not ready: which components wait for others, the cause at the end of the
chain, the object and field that show it, and a fix. Other workloads and Services are explained by their
pods, objects of other kinds by their status. The exit code is 2 if the object is not ready.`,
		Example: `  kubectl holdfast why shop
  kubectl holdfast why cloudmanager/cm -o json
  kubectl holdfast why deployment/coredns -n kube-system`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), env, cmd, args)
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONPath)
	cmd.Flags().BoolVar(&o.all, "all", false, "Include informational causes, such as a component that is scaled to zero")
	cmd.Flags().StringVar(&o.rules, "rules", "", "File with CEL health rules for objects of other kinds")
	return cmd
}

// collect reads an application or an object of another kind.
func (o *options) collect(ctx context.Context, env *cli.Env, cmd *cobra.Command, args []string) (collect.Result, error) {
	rules, err := collect.ReadRules(o.rules)
	if err != nil {
		return collect.Result{}, err
	}
	l, err := collect.FromArgs(ctx, env, cmd.ErrOrStderr(), args, false)
	var unknown *cli.UnknownKindError
	if !errors.As(err, &unknown) {
		return l, err
	}
	if l, err = collect.Object(ctx, env, args, rules, env.Now()); err == nil && unknown.Hint != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "Checked as a single object and not as an application, because %s\n", unknown.Hint)
	}
	return l, err
}

func (o *options) run(ctx context.Context, env *cli.Env, cmd *cobra.Command, args []string) error {
	l, err := o.collect(ctx, env, cmd, args)
	if err != nil {
		return err
	}
	if o.IsMachineReadable() {
		err = o.Print(cmd.OutOrStdout(), l.Document("Explanation"))
	} else {
		Print(env.Terminal(cmd.OutOrStdout()), l, env.Now(), o.all)
	}
	if err == nil && !l.Ready {
		err = cli.ErrNotReady
	}
	return err
}
