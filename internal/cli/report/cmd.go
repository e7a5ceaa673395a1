// Package report is the verb report: everything about one application that helps to find a
// bug, in one file that can be shared.
//
// Safety rule: no Secret is ever read, and everything that is read goes through package redact
// before it is written. What programs wrote is left out unless it is asked for. What is not in
// the file, the file says.
package report

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	file              string
	logs, noLogs      bool
	since             time.Duration
	operatorNamespace string
}

// stdoutPath stands for standard output as a file.
const stdoutPath = "-"

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "report APPLICATION",
		Short: "Put what helps to find a bug into one file, without secrets",
		Long: `Put everything about an application that helps to find a bug into one zip file: why it is not ready,
its tree, its objects and their events, its earlier specs, the operator with its last log, the
versions and what doctor says.

Secrets are never read. Values of environment variables, root passwords, contents of ConfigMaps and
files, and what looks like a password in commands and messages are hidden. What programs wrote, their
logs and last words, is left out unless --logs is given: it may contain anything. MANIFEST in the file
lists what is in it and what is not. The exit code is 0 also when the application is not ready.`,
		Example: `  kubectl holdfast report shop
  kubectl holdfast report appstack/shop -o shop.zip --since 1h
  kubectl holdfast report shop --logs -o - | ssh me@example.com 'cat >shop.zip'`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(cmd.OutOrStdout()); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "output", "o", "", "the file or the folder to write to, or - for standard output (default: a new file here)")
	f.BoolVar(&o.logs, "logs", false, "also what the programs of the application wrote, which may contain secrets")
	f.BoolVar(&o.noLogs, "no-logs", false, "nothing that programs wrote, which is the default")
	f.DurationVar(&o.since, "since", 0, "only events and lines of logs that are younger, for example 1h")
	f.StringVar(&o.operatorNamespace, "operator-namespace", cli.OperatorNamespace, "where the operator runs")
	cmd.MarkFlagsMutuallyExclusive("logs", "no-logs")
	return cmd
}

func (o options) validate(out io.Writer) error {
	if o.since < 0 {
		return fmt.Errorf("--since %s is in the future; use a duration like 1h", o.since)
	}
	if f, ok := out.(*os.File); ok && o.file == stdoutPath && term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("-o %s would write a zip file to this terminal; send it somewhere, or name a file", stdoutPath)
	}
	return nil
}
