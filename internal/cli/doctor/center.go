package doctor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// checkCenter checks the application center. The center is optional: only an installed center that does
// not work is a problem.
func (e *checker) checkCenter(ctx context.Context) {
	const check = "center"
	d, err := e.kube.AppsV1().Deployments(e.operatorNamespace).Get(ctx, cli.CenterName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, OK, "not installed (optional; required by kubectl holdfast ui and center)", "")
		return
	case err != nil:
		e.addUnknown(check, err)
		return
	}
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	version := cli.DeploymentVersion(d)
	summary := fmt.Sprintf("%d of %d ready, image %s", d.Status.ReadyReplicas, replicas, cli.DeploymentImage(d))
	switch {
	case replicas == 0:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s is scaled to 0", e.operatorNamespace, d.Name),
			fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2", e.operatorNamespace, d.Name))
	case d.Status.ObservedGeneration < d.Generation, d.Status.UpdatedReplicas < replicas, d.Status.ReadyReplicas < replicas:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s, %d updated", e.operatorNamespace, d.Name, summary, d.Status.UpdatedReplicas),
			fmt.Sprintf("inspect it: kubectl -n %s describe pods -l app.kubernetes.io/component=center", e.operatorNamespace))
	case version != "" && e.operatorInfo.version != "" && strings.TrimPrefix(version, "v") != strings.TrimPrefix(e.operatorInfo.version, "v"):
		e.add(check, Problem, fmt.Sprintf(
			"the center has version %s and the operator has version %s: application states in the center can be wrong",
			version, e.operatorInfo.version),
			"install the same version of both: kubectl apply -f dist/install.yaml")
	default:
		if version != "" {
			summary += ", version " + version
		}
		e.add(check, OK, summary, "")
	}
}
