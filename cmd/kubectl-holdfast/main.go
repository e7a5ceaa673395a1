// Command kubectl-holdfast is the kubectl plugin: kubectl holdfast VERB.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli/plan"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-holdfast",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl holdfast"},
		Short:         "See what Holdfast does with applications",
		Long:          "See what Holdfast does with applications.\n\nThe exit code is 0 when all is well, 1 after an error and 2 when something is not ready.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(plan.Command())
	return root
}
