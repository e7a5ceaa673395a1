// Package why is the verb why: it says in one sentence each why an application is not ready,
// from what waits down to what is broken, with where to see it and what to do.
//
// Safety rule: it says what the pure explain engine says, and shows foreign texts only as
// evidence.
package why

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// options are the flags.
type options struct {
	cli.Output
	all   bool
	rules string
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "why APPLICATION",
		Short: "Say why an application is not ready",
		Long: `Say why an application is not ready: who waits for whom, what is broken at the end of that
chain, where to see it and what to do. The exit code is 2 when it is not ready.`,
		Example: `  kubectl holdfast why shop
  kubectl holdfast why cloudmanager/cm -o json
  kubectl holdfast why certificate/shop-tls`,
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
	cmd.Flags().BoolVar(&o.all, "all", false, "also what is only worth knowing")
	cmd.Flags().StringVar(&o.rules, "rules", "", "a file with health rules in CEL, for objects of other kinds")
	return cmd
}

// collect looks at an application, or at an object of another kind.
func (o *options) collect(ctx context.Context, env *cli.Env, cmd *cobra.Command, args []string) (collect.Result, error) {
	rules, err := collect.ReadRules(o.rules)
	if err != nil {
		return collect.Result{}, err
	}
	if collect.IsForeignKind(args) {
		return collect.Object(ctx, env, args, rules, env.Now())
	}
	return collect.FromArgs(ctx, env, cmd.ErrOrStderr(), args, false)
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
