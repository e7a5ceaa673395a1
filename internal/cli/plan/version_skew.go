package plan

import (
	"context"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// warnVersionSkew says when the planner of the plugin is not that of the operator. What cannot
// be known is not worth a word, and a build of a developer is of no version.
func warnVersionSkew(ctx context.Context, c client.Reader, plugin string, errOut io.Writer) {
	var d appsv1.Deployment
	if c.Get(ctx, client.ObjectKey{Namespace: cli.OperatorNamespace, Name: cli.OperatorName}, &d) != nil {
		return
	}
	operator := cli.DeploymentVersion(&d)
	released := func(v string) bool { return v != "dev" && v != "latest" }
	if warning := cli.VersionSkewWarning(plugin, operator); warning != "" && released(plugin) && released(operator) {
		fmt.Fprintln(errOut, "warning: "+warning)
	}
}
