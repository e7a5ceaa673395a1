// Package plan is the verb plan: it prints in which order the operator would create and
// delete an application, from its manifest alone.
//
// Safety rule: it asks no cluster and decides nothing itself. What it prints is what the
// planner of the operator says.
package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// The values of --output.
const (
	asTable = "table"
	asJSON  = "json"
	asYAML  = "yaml"
)

// options are the flags.
type options struct {
	file   string
	output string
}

// Command is the verb.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Print the order in which an application is created and deleted",
		Long: `Print the order in which an application (an AppStack, an AppService or a CloudManager) is
created and deleted, and what of it would be applied at once in an empty cluster. No cluster
is asked.`,
		Example: `  kubectl holdfast plan -f shop.yaml
  kubectl get appstack shop -o yaml | kubectl holdfast plan -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "the manifest, or - for standard input; it may have several documents")
	cmd.Flags().StringVarP(&o.output, "output", "o", asTable, "table, json or yaml; the last two print a list with an entry per application")
	return cmd
}

func (o options) check() error {
	if o.file == "" {
		return errors.New("no manifest given; name one with -f FILE, or give - for standard input")
	}
	if !slices.Contains([]string{asTable, asJSON, asYAML}, o.output) {
		return fmt.Errorf("output %q is not known; use -o table, json or yaml", o.output)
	}
	return nil
}
