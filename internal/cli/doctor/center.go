package doctor

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// center looks at the application center. Applications do not need it, so that it is not there is
// no problem; that it is there and does not work is one.
func (e *examination) center(ctx context.Context) {
	const check = "center"
	d, err := e.kube.AppsV1().Deployments(e.operator).Get(ctx, cli.CenterName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		e.add(check, OK, "not installed: applications do not need it, kubectl holdfast ui and engine do", "")
		return
	case err != nil:
		e.unable(check, err)
		return
	}
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	version := cli.OperatorVersion(d)
	what := fmt.Sprintf("%d of %d ready, image %s", d.Status.ReadyReplicas, wanted, cli.OperatorImage(d))
	switch {
	case wanted == 0:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s is scaled to 0, so nobody can look at it", e.operator, d.Name),
			fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2", e.operator, d.Name))
	case d.Status.ObservedGeneration < d.Generation, d.Status.UpdatedReplicas < wanted, d.Status.ReadyReplicas < wanted:
		e.add(check, Problem, fmt.Sprintf("Deployment %s/%s: %s, %d of the current version", e.operator, d.Name, what, d.Status.UpdatedReplicas),
			fmt.Sprintf("look at it: kubectl -n %s describe pods -l app.kubernetes.io/component=center", e.operator))
	case version != "" && e.found.version != "" && strings.TrimPrefix(version, "v") != strings.TrimPrefix(e.found.version, "v"):
		e.add(check, Problem, fmt.Sprintf("it is of version %s and the operator of version %s: what it says about applications may be wrong", version, e.found.version),
			"apply dist/install.yaml of one version, which has both")
	default:
		if version != "" {
			what += ", version " + version
		}
		e.add(check, OK, what, "")
	}
}
