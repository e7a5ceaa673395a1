// Package wait is the verb wait: it waits until an application is ready, suspended, deleted or
// at a revision, and says meanwhile what it waits for.
//
// Safety rule: it only reads, and believes only what the operator has said about the spec as
// it is now.
package wait

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	condition string
	timeout   time.Duration
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "wait APP [--for ready|suspended|deleted|revision=N]",
		Short: "Wait until an application is ready, or gone",
		Long: `Wait until an application is ready, suspended, deleted or at a revision. What it waits for is printed
whenever that changes. When the time is over, the last reason is printed and the exit code is 2.

  ready       everything runs as the spec says
  suspended   the operator has taken its hands off all of it
  deleted     it is gone, with everything that has to end before
  revision=N  revision N is applied, whether everything is ready with it or not`,
		Example: `  kubectl apply -f shop.yaml && kubectl holdfast wait shop
  kubectl delete appstack shop --wait=false && kubectl holdfast wait shop --for deleted --timeout 10m`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.condition, "for", "ready", "ready, suspended, deleted or revision=N")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait; 0 looks once")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"ready", "suspended", "deleted", "revision="}, cobra.ShellCompDirectiveNoFileComp)) // fails only without the flag
	return cmd
}
