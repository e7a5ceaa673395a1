// Package wait implements kubectl holdfast wait, which waits until an application is ready, suspended,
// deleted or at a revision and prints what it waits for.
//
// Safety rule: it only reads, and it ignores status that the operator reported for an older generation.
package wait

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	condition string
	timeout   time.Duration
}

// Command returns the wait command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "wait APPLICATION [--for ready|suspended|deleted|revision=N]",
		Short: "Wait for a condition of an application",
		Long: `Wait until an application is ready, suspended, deleted or at a revision. The command prints what it waits
for, and again after each change. After the timeout it prints the last reason and exits with code 2.

  ready       the current spec is applied and all components are ready
  suspended   all components are suspended
  deleted     the application and its dependents are deleted
  revision=N  revision N is applied, even if components are not ready`,
		Example: `  kubectl apply -f shop.yaml && kubectl holdfast wait shop
  kubectl delete appstack shop --wait=false && kubectl holdfast wait shop --for deleted --timeout 10m`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&o.condition, "for", "ready", "Condition to wait for: ready, suspended, deleted or revision=N")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "Time to wait before giving up. 0 checks once and does not wait")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"ready", "suspended", "deleted", "revision="}, cobra.ShellCompDirectiveNoFileComp)) // fails only without the flag
	return cmd
}
