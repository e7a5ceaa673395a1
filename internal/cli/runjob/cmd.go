// Package runjob implements kubectl holdfast run, which runs a job of an application again.
//
// Safety rule: it deletes only the finished Job of the component, exactly the one that it has read, or creates a Job from
// the CronJob of the component. It does not change the application, so the next apply of its manifest repeats nothing.
package runjob

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Command returns the run command.
func Command(env *cli.Env) *cobra.Command {
	var component string
	cmd := &cobra.Command{
		Use:   "run APPLICATION [--component JOB]",
		Short: "Run a job again",
		Long: `Run a job of an application again. The operator creates the Job of a completed job again; a scheduled job runs
now, next to its schedule. Components that depend on the job keep running.`,
		Example: `  kubectl holdfast run shop
  kubectl holdfast run shop --component migrate && kubectl holdfast wait shop`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), env, component, args, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&component, "component", "", "Job to run. Default: the only job of the application")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	return cmd
}
