// Package completion is the verb completion: what a shell needs to complete verbs, flags and
// the names of applications.
//
// Safety rule: it prints a script and changes no file.
package completion

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// KubectlScript is what kubectl calls to complete the words of a plugin. It has no other way.
const KubectlScript = `#!/bin/sh
exec kubectl holdfast __complete "$@"
`

// generators make the script for each shell, which completes the program kubectl-holdfast.
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

// shells are those that can be asked for, the usual way first.
var shells = []string{"kubectl", "bash", "zsh", "fish", "powershell"}

// Command is the verb.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "completion kubectl|bash|zsh|fish|powershell",
		Short: "Print a script that completes verbs, flags and names",
		Long: `Print a script that completes verbs, flags and the names of applications.

For "kubectl holdfast", kubectl itself does it in every shell where its own completion is switched on
(kubectl completion --help). It calls a program kubectl_complete-holdfast, which has to be somewhere in
your PATH and does nothing but this:

  ` + strings.ReplaceAll(strings.TrimSpace(KubectlScript), "\n", "\n  ") + `

"kubectl holdfast completion kubectl" prints it. For the program kubectl-holdfast, called by its own
name, name your shell instead, and load what is printed.`,
		Example: `  kubectl holdfast completion kubectl > ~/.local/bin/kubectl_complete-holdfast
  chmod +x ~/.local/bin/kubectl_complete-holdfast

  source <(kubectl-holdfast completion bash)
  kubectl-holdfast completion fish > ~/.config/fish/completions/kubectl-holdfast.fish`,
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || generators[args[0]] == nil {
				return fmt.Errorf("%q is no shell that is known; give one of %s", strings.Join(args, " "), strings.Join(shells, ", "))
			}
			return generators[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
