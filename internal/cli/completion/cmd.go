// Package completion implements kubectl holdfast completion, which prints completion scripts for shells
// and for kubectl.
//
// Safety rule: it prints a script and does not change files.
package completion

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// KubectlScript is the program that kubectl runs to complete the arguments of the plugin.
const KubectlScript = `#!/bin/sh
exec kubectl holdfast __complete "$@"
`

// generators write the completion script of each shell for the program kubectl-holdfast.
var generators = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
	"kubectl": func(_ *cobra.Command, out io.Writer) error {
		_, err := io.WriteString(out, KubectlScript)
		return err
	},
}

// shells are the supported shells, in the order of the help text.
var shells = []string{"kubectl", "bash", "zsh", "fish", "powershell"}

// Command returns the completion command.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "completion kubectl|bash|zsh|fish|powershell",
		Short: "Print a shell completion script",
		Long: `Print a script that completes commands, flags and the names of applications.

For "kubectl holdfast", enable the completion of kubectl (kubectl completion --help) and install a
program named kubectl_complete-holdfast in your PATH, which kubectl runs:

  ` + strings.ReplaceAll(strings.TrimSpace(KubectlScript), "\n", "\n  ") + `

"kubectl holdfast completion kubectl" prints this program. For the program kubectl-holdfast, print and
load the script of your shell.`,
		Example: `  kubectl holdfast completion kubectl > ~/.local/bin/kubectl_complete-holdfast
  chmod +x ~/.local/bin/kubectl_complete-holdfast

  source <(kubectl-holdfast completion bash)
  kubectl-holdfast completion fish > ~/.config/fish/completions/kubectl-holdfast.fish`,
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || generators[args[0]] == nil {
				return fmt.Errorf("shell %q is not supported; use one of: %s", strings.Join(args, " "), strings.Join(shells, ", "))
			}
			return generators[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
