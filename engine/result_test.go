package engine

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// TestForeignDeploymentIsNotCounted keeps the pods and the selector of somebody else's Deployment out
// of our status.
func TestForeignDeploymentIsNotCounted(t *testing.T) {
	o := newResult("shop", rollout.Observed{deploymentID: newTestDeployment(2)})
	o.recordApply("web", deploymentID, apply.Result{Object: newTestDeployment(2)}, &ownership.NameConflict{Child: deploymentID, Namespace: "shop", Message: "is theirs"})
	if o.child(deploymentID) != nil {
		t.Error("a foreign Deployment counts as a child")
	}
	got := assessComponent(webComponent(false), &o, explain.Diagnosis{}, nil).status
	if got.Replicas != 0 || got.Selector != "app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web" {
		t.Errorf("got %+v", got)
	}
}

// TestContendedChildKeepsReadyMessage says the same thing about a child that somebody keeps changing, whatever
// it looks like just now, and looks again when that may be over.
func TestContendedChildKeepsReadyMessage(t *testing.T) {
	const want = "Somebody keeps changing Deployment shop/web; it is repaired at most once a second. " +
		"Find out who: kubectl get deployment web -n shop --show-managed-fields -o yaml"
	for _, seen := range []rollout.Observed{
		{deploymentID: newTestDeployment(2)},
		{deploymentID: newTestDeployment(0)},
		{}, // deleted again
	} {
		o := newResult("shop", seen)
		o.recordApply("web", deploymentID, apply.Result{ContentionRemaining: 3 * time.Second}, nil)
		v := assessComponent(webComponent(false), &o, explain.Diagnosis{}, nil)
		if s := summarizeReady([]componentState{v}, &o); s.status != "False" || s.reason != "Progressing" || s.message != want {
			t.Errorf("got %+v", s)
		}
		if o.requeueAfter != 3*time.Second {
			t.Errorf("looks again in %s", o.requeueAfter)
		}
	}
}
