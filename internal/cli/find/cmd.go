// Package find implements kubectl holdfast find, which finds the applications that use an image, a
// Secret, a ConfigMap or a node.
//
// Safety rule: it reads workloads, and pods only for --node. It never reads a Secret or a ConfigMap.
package find

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	query
	allNamespaces, noHeaders bool
	output                   cli.Output
}

// Command returns the find command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "find [--image TEXT] [--secret NAME] [--configmap NAME] [--node NAME] [-l SELECTOR]",
		Short: "Find the applications that use an image, a Secret, a ConfigMap or a node",
		Long: `Find the applications that use an image, a Secret, a ConfigMap or a node, with the object and the field
that refer to it. If you combine flags, one object must match all of them: a pod with --node, otherwise
a workload. --image matches any part of an image name; other names must match completely. -l selects
by the labels of these objects.

The command does not read Secrets or ConfigMaps.`,
		Example: `  kubectl holdfast find --image nginx:1.20 -A
  kubectl holdfast find --secret shop-tls
  kubectl holdfast find --node worker-3 -A -o name
  kubectl holdfast find --image mariadb -l app.kubernetes.io/component=db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.image, "image", "", "Part of an image name")
	f.StringVar(&o.secret, "secret", "", "Name of a Secret")
	f.StringVar(&o.configMap, "configmap", "", "Name of a ConfigMap")
	f.StringVar(&o.node, "node", "", "Name of a node")
	f.StringVarP(&o.labels, "selector", "l", "", "Label selector, for example app.kubernetes.io/component=db")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Search all namespaces")
	f.BoolVar(&o.noHeaders, "no-headers", false, "Omit the header row")
	o.output.AddFlag(f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	return cmd
}

func (o options) validate() error {
	if o.query == (query{}) {
		return errors.New("no search criteria specified; use --image, --secret, --configmap, --node or -l")
	}
	if _, err := labels.Parse(o.labels); err != nil {
		return fmt.Errorf("selector %q: %w; use a selector such as app.kubernetes.io/component=db", o.labels, err)
	}
	return o.output.Validate()
}
