package plan

import (
	"context"
	"fmt"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// warnVersionSkew warns if the plugin and the operator have different versions, because their planners can
// differ. It does not warn about unknown versions and development builds.
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
