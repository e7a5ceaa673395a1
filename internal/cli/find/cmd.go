// Package find is the verb find: it says which applications use an image, a Secret, a
// ConfigMap or a node, and in which field.
//
// Safety rule: it reads the children that have pods, and pods only when a node is asked for.
// It never reads a Secret or a ConfigMap: the name is all it needs.
package find

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	query
	allNamespaces, noHeaders bool
	output                   cli.Output
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "find [--image TEXT] [--secret NAME] [--configmap NAME] [--node NAME] [-l SELECTOR]",
		Short: "Find the applications that use an image, a Secret, a ConfigMap or a node",
		Long: `Find the applications that use an image, a Secret, a ConfigMap or a node, and say in which
field of which object. Several conditions are all to be met by one object; with --node this
is a pod, otherwise what pods are made from. Of an image any part of its name is enough;
other names are given in full. -l is about the labels of these objects.

No Secret and no ConfigMap is read.`,
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
	f.StringVar(&o.image, "image", "", "a part of the name of an image")
	f.StringVar(&o.secret, "secret", "", "the name of a Secret")
	f.StringVar(&o.configMap, "configmap", "", "the name of a ConfigMap")
	f.StringVar(&o.node, "node", "", "the name of a node")
	f.StringVarP(&o.labels, "selector", "l", "", "labels of the objects, as in kubectl get")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "look in all namespaces")
	f.BoolVar(&o.noHeaders, "no-headers", false, "leave out the names of the columns")
	o.output.AddFlag(f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	return cmd
}

func (o options) validate() error {
	if o.query == (query{}) {
		return errors.New("nothing to look for; say what with --image, --secret, --configmap, --node or -l")
	}
	if _, err := labels.Parse(o.labels); err != nil {
		return fmt.Errorf("selector %q: %w; one looks like app.kubernetes.io/component=db", o.labels, err)
	}
	return o.output.Validate()
}
