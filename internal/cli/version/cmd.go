// Package version is the verb version: of the plugin, the operator and the API server.
//
// Safety rule: it only reads. A version that is not known is said to be unknown, and not
// guessed.
package version

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	output    cli.Output
	client    bool
	namespace string
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of plugin, operator and API server",
		Long: `Print the versions of the plugin, the operator and the API server, and a warning when plugin and
operator differ.`,
		Example: `  kubectl holdfast version
  kubectl holdfast version --client`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.output.Validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.output.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONPath)
	cmd.Flags().BoolVar(&o.client, "client", false, "only that of the plugin; no cluster is asked")
	cmd.Flags().StringVar(&o.namespace, "operator-namespace", cli.OperatorNamespace, "where the operator runs")
	return cmd
}

// Versions is the answer for programs.
type Versions struct {
	cli.Header `json:",inline"`
	Plugin     string    `json:"plugin"`
	Operator   *Operator `json:"operator,omitempty"`
	Kubernetes string    `json:"kubernetes,omitempty"`
}

// Operator is what runs in the cluster.
type Operator struct {
	// Version is empty when neither a label nor the tag of the image says it.
	Version string `json:"version,omitempty"`
	Image   string `json:"image"`
}

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	v := Versions{Header: cli.NewHeader("Versions"), Plugin: env.Version}
	var unknownReason string
	var err error
	if !o.client {
		defer cli.Progress(errOut, "Asking the API server")()
		v, unknownReason, err = Detect(ctx, env, o.namespace)
	}
	if printErr := v.print(o, unknownReason, env.Terminal(out)); printErr != nil {
		return printErr
	}
	if err != nil {
		return err
	}
	if v.Operator != nil {
		if warning := cli.VersionSkewWarning(v.Plugin, v.Operator.Version); warning != "" {
			fmt.Fprintln(errOut, warning)
		}
	}
	return nil
}

// Detect finds out what there is, with the operator in a namespace. missing says why its version
// is not known.
func Detect(ctx context.Context, env *cli.Env, namespace string) (v Versions, unknownReason string, err error) {
	v = Versions{Header: cli.NewHeader("Versions"), Plugin: env.Version}
	unknownReason, err = v.detect(ctx, env, namespace)
	return v, unknownReason, err
}

// detect finds out what the cluster has. missing says why the operator's version is not known.
func (v *Versions) detect(ctx context.Context, env *cli.Env, namespace string) (unknownReason string, err error) {
	config, err := env.Config()
	if err != nil {
		return "", err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	server, err := kube.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reach the API server: %w; choose another cluster with --context, or give --client", cli.WithHint(err))
	}
	v.Kubernetes = server.GitVersion
	d, err := kube.AppsV1().Deployments(namespace).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("there is no Deployment %s/%s; kubectl holdfast doctor tells more", namespace, cli.OperatorName), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you may not read Deployment %s/%s", namespace, cli.OperatorName), nil
	case err != nil:
		return "", fmt.Errorf("get Deployment %s/%s: %w", namespace, cli.OperatorName, cli.WithHint(err))
	}
	v.Operator = &Operator{Version: cli.DeploymentVersion(d), Image: cli.DeploymentImage(d)}
	return "its image has no tag: " + v.Operator.Image, nil
}

func (v *Versions) print(o options, unknownReason string, out cli.Terminal) error {
	if o.output.IsMachineReadable() {
		return o.output.Print(out, v)
	}
	table := cli.Table{Columns: []string{"", ""}, NoHeaders: true, Rows: [][]string{{"plugin", v.Plugin}}}
	switch {
	case v.Operator != nil && v.Operator.Version != "":
		table.Rows = append(table.Rows, []string{"operator", v.Operator.Version})
	case unknownReason != "":
		table.Rows = append(table.Rows, []string{"operator", "unknown: " + unknownReason})
	}
	if v.Kubernetes != "" {
		table.Rows = append(table.Rows, []string{"Kubernetes", v.Kubernetes})
	}
	table.Print(out)
	return nil
}
