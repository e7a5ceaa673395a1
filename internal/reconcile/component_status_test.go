package reconcile

import (
	"slices"
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Clients that do not know the components of a kind read the dependencies from the status.
func TestWaitingComponentReportsDependencies(t *testing.T) {
	web := desired.Component{Name: "web", DependsOn: []string{"db", "queue"}}
	for name, tc := range map[string]struct {
		waitsFor, want []string
	}{
		"waiting": {[]string{"db"}, []string{"db", "queue"}},
		"ready":   {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			state := componentState{component: web, health: health.Result{Status: health.Healthy}, step: rollout.Step{WaitsFor: tc.waitsFor}}
			state.fillStatus(nil)
			if !slices.Equal(state.status.DependsOn, tc.want) {
				t.Errorf("status names %v, want %v", state.status.DependsOn, tc.want)
			}
		})
	}
}

func TestDependenciesAreNoTransition(t *testing.T) {
	status := func(dependsOn ...string) *appsapi.StackStatus {
		return &appsapi.StackStatus{Components: []appsapi.ComponentStatus{{Name: "web", Health: "Waiting", DependsOn: dependsOn}}}
	}
	if isStackTransition(status(), status("db")) {
		t.Error("dependencies alone cause a status write")
	}
	other := status("db")
	other.Components[0].Health = "Healthy"
	if !isStackTransition(status("db"), other) {
		t.Error("a changed health is not a transition")
	}
}
