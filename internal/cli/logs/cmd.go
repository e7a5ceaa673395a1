// Package logs is the verb logs: the logs of all pods of an application, as one stream.
//
// Safety rule: it only reads, as internal/logs does, and prints one line at a time.
package logs

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	component, container         string
	follow, previous, timestamps bool
	tail                         int64
	since                        time.Duration
	maxStreams                   int
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "logs APPLICATION",
		Short: "Print the logs of all pods of an application",
		Long: `Print the logs of all pods of an application. Each line begins with its component, the end
of the name of its pod, and its container.

With --follow the lines come as they are written, also those of pods that come later and of
containers that are restarted, until Ctrl-C.`,
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
	f.StringVar(&o.component, "component", "", "only this component")
	f.StringVarP(&o.container, "container", "c", "", "only containers of this name")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what is written")
	f.BoolVarP(&o.previous, "previous", "p", false, "what containers wrote before they were restarted")
	f.BoolVar(&o.timestamps, "timestamps", false, "begin with the time of each line")
	f.Int64Var(&o.tail, "tail", 10, "how many lines of each container that runs already; -1 means all")
	f.DurationVar(&o.since, "since", 0, "only what is younger, for example 5m")
	f.IntVar(&o.maxStreams, "max-streams", 20, "how many containers are followed at once")
	return cmd
}

func (o options) validate() error {
	switch {
	case o.previous && o.follow:
		return errors.New("--previous is about what is over; leave out --follow")
	case o.tail < -1:
		return fmt.Errorf("--tail %d is not a number of lines; use -1 for all", o.tail)
	case o.since < 0:
		return fmt.Errorf("--since %s is in the future; use a duration like 5m", o.since)
	case o.maxStreams < 1:
		return fmt.Errorf("--max-streams %d shows nothing; use 1 or more", o.maxStreams)
	}
	return nil
}
