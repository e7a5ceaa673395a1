// Package version implements kubectl holdfast version, which prints the versions of the plugin, the
// operator and the API server.
//
// Safety rule: it only reads. It prints unknown instead of guessing a version.
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

// options has the flags.
type options struct {
	output    cli.Output
	client    bool
	namespace string
}

// Command returns the version command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin, the operator and the API server",
		Long: `Print the versions of the plugin, the operator and the API server. If the versions of the plugin and the
operator differ, the command prints a warning.`,
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
	cmd.Flags().BoolVar(&o.client, "client", false, "Print only the version of the plugin, without contacting the cluster")
	cmd.Flags().StringVar(&o.namespace, "operator-namespace", cli.OperatorNamespace, "Namespace of the operator")
	return cmd
}

// Versions is the machine-readable output.
type Versions struct {
	cli.Header `json:",inline"`
	Plugin     string    `json:"plugin"`
	Operator   *Operator `json:"operator,omitempty"`
	Kubernetes string    `json:"kubernetes,omitempty"`
}

// Operator is the operator in the cluster.
type Operator struct {
	// Version is empty if neither the version label nor the image has a version.
	Version string `json:"version,omitempty"`
	Image   string `json:"image"`
}

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	v := Versions{Header: cli.NewHeader("Versions"), Plugin: env.Version}
	var unknownReason string
	var err error
	if !o.client {
		defer cli.Progress(errOut, "Reading versions")()
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

// Detect reads the versions. unknownReason explains why the version of the operator is unknown.
func Detect(ctx context.Context, env *cli.Env, namespace string) (v Versions, unknownReason string, err error) {
	v = Versions{Header: cli.NewHeader("Versions"), Plugin: env.Version}
	unknownReason, err = v.detect(ctx, env, namespace)
	return v, unknownReason, err
}

// detect reads the versions of the cluster. unknownReason explains why the version of the operator is
// unknown.
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
	if unreachable := cli.AsUnreachable(err); unreachable != nil {
		unreachable.Alternative = ", or show only the version of the plugin with --client"
		return "", unreachable
	}
	if err != nil {
		return "", fmt.Errorf("read the version of the API server: %w", cli.WithHint(err))
	}
	v.Kubernetes = server.GitVersion
	d, err := kube.AppsV1().Deployments(namespace).Get(ctx, cli.OperatorName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("Deployment %s/%s not found; kubectl holdfast doctor checks the installation", namespace, cli.OperatorName), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("no permission to read Deployment %s/%s", namespace, cli.OperatorName), nil
	case err != nil:
		return "", fmt.Errorf("get Deployment %s/%s: %w", namespace, cli.OperatorName, cli.WithHint(err))
	}
	v.Operator = &Operator{Version: cli.DeploymentVersion(d), Image: cli.DeploymentImage(d)}
	return "its Deployment has no version label and its image no tag: " + v.Operator.Image, nil
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
