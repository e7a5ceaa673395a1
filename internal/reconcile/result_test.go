package reconcile

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// TestForeignDeploymentIsNotCounted checks that the status does not report the pods and the selector
// of a Deployment of another owner.
func TestForeignDeploymentIsNotCounted(t *testing.T) {
	o := newTestScope(rollout.Observed{deploymentID: newTestDeployment(2)})
	o.RecordApply("web", deploymentID, apply.Result{Object: newTestDeployment(2)}, &ownership.NameConflict{Child: deploymentID, Namespace: "shop", Message: "is controlled by another owner"})
	if o.Child(deploymentID) != nil {
		t.Error("a foreign Deployment counts as a child")
	}
	got := assessComponent(webComponent(false), o, explain.Diagnosis{}, nil).status
	if got.Replicas != 0 || got.Selector != "app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web" {
		t.Errorf("got %+v", got)
	}
}

// TestFieldConflictKeepsChild checks that the pods of a child are counted although it cannot be applied,
// and that the application waits for a user.
func TestFieldConflictKeepsChild(t *testing.T) {
	o := newTestScope(rollout.Observed{deploymentID: newTestDeployment(2)})
	o.RecordApply("web", deploymentID, apply.Result{Object: newTestDeployment(2)}, &fieldmanager.FieldConflict{Child: deploymentID, Namespace: "shop", Message: "x"})
	if o.Child(deploymentID) == nil || o.RetryErr() != nil || !o.IsBlocked() {
		t.Errorf("child %v, retries %v, blocked %t", o.Child(deploymentID), o.RetryErr(), o.IsBlocked())
	}
}

// TestContendedChildKeepsReadyMessage checks that the message about a contended child does not depend
// on its current state, and that the application is requeued when the contention may be over.
func TestContendedChildKeepsReadyMessage(t *testing.T) {
	const want = "Another client keeps changing Deployment shop/web; drift is corrected at most once per second. " +
		"To identify the client: kubectl get deployment web -n shop --show-managed-fields -o yaml"
	for _, seen := range []rollout.Observed{
		{deploymentID: newTestDeployment(2)},
		{deploymentID: newTestDeployment(0)},
		{}, // deleted by the other client
	} {
		o := newTestScope(seen)
		o.RecordApply("web", deploymentID, apply.Result{ContentionRemaining: 3 * time.Second}, nil)
		v := assessComponent(webComponent(false), o, explain.Diagnosis{}, nil)
		if s := summarizeReady([]componentState{v}, o); s.status != "False" || s.reason != "Progressing" || s.message != want {
			t.Errorf("got %+v", s)
		}
		if o.RequeueAfter != 3*time.Second {
			t.Errorf("requeued after %s", o.RequeueAfter)
		}
	}
}
