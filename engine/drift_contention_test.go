package engine

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// TestContentionMessageIsStable is about a child that somebody changes all the time: whatever it looks like at
// the moment, its component says the same, and so do those that wait for it. Otherwise every
// change of theirs would be a write of ours.
func TestContentionMessageIsStable(t *testing.T) {
	c := desired.Component{Name: "api", Workload: deploymentID, Children: []desired.Child{{ID: deploymentID}}}
	messages := map[string]bool{}
	for _, d := range []*appsv1.Deployment{
		newTestDeployment(2), newTestDeployment(0),
		newTestDeployment(2, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }),
		newTestDeployment(2, func(d *appsv1.Deployment) { d.Generation++ }),
	} {
		res := newResult("shop", rollout.Observed{deploymentID: d})
		res.contended[deploymentID] = true
		api := assessComponent(c, &res, explain.Diagnosis{}, nil)
		api.fillStatus(nil)
		web := componentState{component: desired.Component{Name: "web"}, step: rollout.Step{WaitsFor: []string{"api"}}}
		web.fillStatus(map[string]*componentState{"api": &api})
		messages[api.status.Health+" "+api.status.Reason+" "+api.status.Message+"; "+web.status.Message] = true
	}
	if len(messages) != 1 {
		t.Errorf("it says different things: %v", messages)
	}
}
