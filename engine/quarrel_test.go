package engine

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// TestQuarrel is about a child that somebody changes all the time: whatever it looks like at
// the moment, its component says the same, and so do those that wait for it. Otherwise every
// change of theirs would be a write of ours.
func TestQuarrel(t *testing.T) {
	c := desired.Component{Name: "api", Workload: deploymentID, Children: []desired.Child{{ID: deploymentID}}}
	said := map[string]bool{}
	for _, d := range []*appsv1.Deployment{
		deployment(2), deployment(0),
		deployment(2, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }),
		deployment(2, func(d *appsv1.Deployment) { d.Generation++ }),
	} {
		done := newOutcome("shop", rollout.Seen{deploymentID: d})
		done.contested[deploymentID] = true
		api := assess(c, &done, explain.Answer{}, nil)
		api.describe(nil)
		web := view{component: desired.Component{Name: "web"}, step: rollout.Step{WaitsFor: []string{"api"}}}
		web.describe(map[string]*view{"api": &api})
		said[api.status.Health+" "+api.status.Reason+" "+api.status.Message+"; "+web.status.Message] = true
	}
	if len(said) != 1 {
		t.Errorf("it says different things: %v", said)
	}
}
