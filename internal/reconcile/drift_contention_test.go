package reconcile

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// TestContentionMessageIsStable checks that the messages of a component and its dependents do not
// depend on the current state of a contended child. Otherwise every change of the other client would
// cause a status write.
func TestContentionMessageIsStable(t *testing.T) {
	c := desired.Component{Name: "api", Workload: deploymentID, Children: []desired.Child{{ID: deploymentID}}}
	messages := map[string]bool{}
	for _, d := range []*appsv1.Deployment{
		newTestDeployment(2), newTestDeployment(0),
		newTestDeployment(2, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) }),
		newTestDeployment(2, func(d *appsv1.Deployment) { d.Generation++ }),
	} {
		res := newTestScope(rollout.Observed{deploymentID: d})
		res.Contended[deploymentID] = true
		api := assessComponent(c, res, explain.Diagnosis{}, nil)
		api.fillStatus(nil)
		web := componentState{component: desired.Component{Name: "web"}, step: rollout.Step{WaitsFor: []string{"api"}}}
		web.fillStatus(map[string]*componentState{"api": &api})
		messages[api.status.Health+" "+api.status.Reason+" "+api.status.Message+"; "+web.status.Message] = true
	}
	if len(messages) != 1 {
		t.Errorf("the message is not stable: %v", messages)
	}
}
