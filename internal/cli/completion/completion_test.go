package completion_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/cli/completion"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
)

func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestScriptsAreValid(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_kubectl-holdfast kubectl-holdfast", "zsh": "#compdef kubectl-holdfast",
		"fish": "complete -c kubectl-holdfast", "powershell": "Register-ArgumentCompleter -CommandName 'kubectl-holdfast'",
		"kubectl": completion.KubectlScript,
	} {
		t.Run(shell, func(t *testing.T) {
			got, err := execute(t, "completion", shell)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing", want)
			}
			program := map[string]string{"bash": "bash", "zsh": "zsh", "kubectl": "sh"}[shell]
			path, err := exec.LookPath(program)
			if program == "" || err != nil {
				return // the shell is not installed
			}
			check := exec.Command(path, "-n")
			check.Stdin = strings.NewReader(got)
			if out, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v\n%s", program, err, out)
			}
		})
	}
}

func TestUnknownShell(t *testing.T) {
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		const want = " is not supported; use one of: kubectl, bash, zsh, fish, powershell"
		if _, err := execute(t, args...); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: got %v", args, err)
		}
	}
}

// Commands, shells and conditions are completed without a cluster.
func TestCompletionWithoutCluster(t *testing.T) {
	for words, want := range map[string]string{
		"rol":          "rollback\tRoll an application back to an earlier revision\n:4\n",
		"completion f": "fish\n:4\n",
		"wait --for d": "ready\nsuspended\ndeleted\nrevision=\n:4\n", // the shell filters these
	} {
		got, err := execute(t, append([]string{"__complete"}, strings.Split(words, " ")...)...)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", words, got, want)
		}
	}
}
