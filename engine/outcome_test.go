package engine

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// TestForeignIsNotSeen keeps the pods and the selector of somebody else's Deployment out
// of our status.
func TestForeignIsNotSeen(t *testing.T) {
	o := newOutcome("shop", rollout.Seen{deploymentID: deployment(2)})
	o.add("web", deploymentID, apply.Result{Object: deployment(2)}, &own.NameConflict{Child: deploymentID, Namespace: "shop", Why: "is theirs"})
	if o.child(deploymentID) != nil {
		t.Error("a foreign Deployment counts as a child")
	}
	got := assess(web(false), &o, explain.Answer{}, nil).status
	if got.Replicas != 0 || got.Selector != "app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web" {
		t.Errorf("got %+v", got)
	}
}

// TestContested says the same thing about a child that somebody keeps changing, whatever
// it looks like just now, and looks again when that may be over.
func TestContested(t *testing.T) {
	const want = "Somebody keeps changing Deployment shop/web; it is repaired at most once a second. " +
		"Find out who: kubectl get deployment web -n shop --show-managed-fields -o yaml"
	for _, seen := range []rollout.Seen{
		{deploymentID: deployment(2)},
		{deploymentID: deployment(0)},
		{}, // deleted again
	} {
		o := newOutcome("shop", seen)
		o.add("web", deploymentID, apply.Result{Contested: 3 * time.Second}, nil)
		v := assess(web(false), &o, explain.Answer{}, nil)
		if s := ready([]view{v}, &o); s.status != "False" || s.reason != "Progressing" || s.message != want {
			t.Errorf("got %+v", s)
		}
		if o.wait != 3*time.Second {
			t.Errorf("looks again in %s", o.wait)
		}
	}
}
