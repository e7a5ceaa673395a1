package root

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

func TestCommandRunsVerbs(t *testing.T) {
	cases := map[string]struct {
		args []string
		want string
	}{
		"version": {args: []string{"--version"}, want: "kubectl holdfast version dev\n"},
		"plan":    {args: []string{"plan", "-f", "../../../config/samples/appservice.yaml", "--offline"}, want: "AppService web, 1 component\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := Command("dev")
			root.SetOut(&out)
			root.SetArgs(tc.args)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out.String(), tc.want) {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}

// TestOutputOfEveryVerbIsSafe checks that texts of servers, containers and other users cannot control the terminal.
func TestOutputOfEveryVerbIsSafe(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\x1b[2J"
	for format, want := range map[string]string{"table": `\x1b]0;owned\a\x1b[2J`, "json": hostile} {
		root := Command("dev")
		verb := &cobra.Command{Use: "verb", Run: func(cmd *cobra.Command, _ []string) {
			_, _ = io.WriteString(cmd.OutOrStdout(), hostile)
			_, _ = io.WriteString(cmd.ErrOrStderr(), hostile)
		}}
		var output cli.Output
		output.AddFlag(verb.Flags(), cli.FormatTable, cli.FormatJSON)
		root.AddCommand(verb)
		var out, errOut bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&errOut)
		root.SetArgs([]string{"verb", "-o", format})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want || errOut.String() != `\x1b]0;owned\a\x1b[2J` {
			t.Errorf("-o %s printed %q and %q, want %q", format, out.String(), errOut.String(), want)
		}
	}
}
