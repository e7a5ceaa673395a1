// Package report implements kubectl holdfast report, which writes a zip file with diagnostic data of one
// application for a bug report.
//
// Safety rule: it never reads a Secret, and package redact redacts all contents. Output of programs is
// omitted by default. MANIFEST lists everything that is omitted.
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

// options has the flags.
type options struct {
	file              string
	logs, noLogs      bool
	since             time.Duration
	operatorNamespace string
}

// stdoutPath selects standard output.
const stdoutPath = "-"

// Command returns the report command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "report APPLICATION",
		Short: "Create a bug report without secrets",
		Long: `Create a zip file with diagnostic data of an application: the output of why, tree and doctor, its
objects, events and revisions, the operator with its recent logs, and the versions.

Secrets are never read. The report redacts values of environment variables, root passwords, contents of
ConfigMaps and files, and likely passwords in commands and messages. It omits the output of programs
(logs, termination messages, probe output) unless you use --logs. MANIFEST in the zip file lists the
contents and what is omitted. The exit code is 0 even if the application is not ready.`,
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
	f.StringVarP(&o.file, "output", "o", "",
		"File or directory to write to, or - for standard output. Default: a new file in the current directory")
	f.BoolVar(&o.logs, "logs", false, "Include the output of programs, such as logs, which can contain secrets")
	f.BoolVar(&o.noLogs, "no-logs", false, "Omit the output of programs. This is the default")
	f.DurationVar(&o.since, "since", 0, "Include only events and log lines newer than this duration, for example 1h")
	f.StringVar(&o.operatorNamespace, "operator-namespace", cli.OperatorNamespace, "Namespace of the operator")
	cmd.MarkFlagsMutuallyExclusive("logs", "no-logs")
	return cmd
}

func (o options) validate(out io.Writer) error {
	if o.since < 0 {
		return fmt.Errorf("--since %s is in the future; use a duration like 1h", o.since)
	}
	if f, ok := cli.RawOutput(out).(*os.File); ok && o.file == stdoutPath && term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("-o %s would write a zip file to the terminal; redirect the output or specify a file", stdoutPath)
	}
	return nil
}
