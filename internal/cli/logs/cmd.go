// Package logs implements kubectl holdfast logs, which prints the logs of all pods of an application as
// one stream.
//
// Safety rule: it only reads and prints line by line, without buffering whole logs.
package logs

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	component, container         string
	follow, previous, timestamps bool
	tail                         int64
	since                        time.Duration
	maxStreams                   int
}

// Command returns the logs command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "logs APPLICATION",
		Short: "Print the logs of all pods of an application",
		Long: `Print the logs of all pods of an application. Each line starts with the component, the suffix of the pod
name and the container.

With --follow the command streams new lines until Ctrl-C, including those of new pods and restarted
containers.`,
		Example: `  kubectl holdfast logs shop
  kubectl holdfast logs appstack/shop --component web -f
  kubectl holdfast logs shop --previous --tail -1
  kubectl holdfast logs shop -f --since 5m --timestamps`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.component, "component", "", "Print only the logs of this component")
	f.StringVarP(&o.container, "container", "c", "", "Print only the logs of containers with this name")
	f.BoolVarP(&o.follow, "follow", "f", false, "Stream new log lines")
	f.BoolVarP(&o.previous, "previous", "p", false, "Print the logs of previous instances of restarted containers")
	f.BoolVar(&o.timestamps, "timestamps", false, "Print the timestamp of each line")
	f.Int64Var(&o.tail, "tail", 10, "Number of existing lines to print per container. -1 prints all lines")
	f.DurationVar(&o.since, "since", 0, "Print only lines newer than this duration, for example 5m")
	f.IntVar(&o.maxStreams, "max-streams", 20, "Maximum number of concurrent log streams")
	_ = cmd.RegisterFlagCompletionFunc("component", env.CompleteComponent) // fails only without the flag
	_ = cmd.RegisterFlagCompletionFunc("container", env.CompleteContainer) // the same
	return cmd
}

func (o options) validate() error {
	switch {
	case o.previous && o.follow:
		return errors.New("--previous cannot be combined with --follow")
	case o.tail < -1:
		return fmt.Errorf("--tail %d is invalid; use a number of lines, or -1 for all lines", o.tail)
	case o.since < 0:
		return fmt.Errorf("--since %s is in the future; use a duration like 5m", o.since)
	case o.maxStreams < 1:
		return fmt.Errorf("--max-streams %d is invalid; use 1 or more", o.maxStreams)
	}
	return nil
}
