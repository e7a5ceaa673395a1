package podsim_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// A real scheduler accepts the simulated node, and its message for a pod that does not fit is equal to that of the
// simulated scheduler.
func TestRealScheduler(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{Scheduler: true})
	s := newHarnessOn(t, plane, podsim.WithoutScheduling())
	s.createDeployment(withCPURequest("400", newDeployment("fits", 2))) // of 1000 CPUs
	s.waitFor("the pods that fit to be ready", func(state watcher.State) bool { return s.deployment(state, "fits").Status.ReadyReplicas == 2 })
	s.createDeployment(withCPURequest("400", newDeployment("large", 1)))
	s.waitFor("the pod that does not fit", func(state watcher.State) bool { return firstProblem(s.podsOf(state, "large")) == "Unschedulable" })
	realStatus := s.podsOf(s.w.State(), "large")[0].Status

	// The same with the simulated scheduler.
	s.sim.Stop()
	s.check(plane.Scheduler.Kill())
	sim, err := podsim.Start(t.Context(), plane.Config)
	s.check(err)
	t.Cleanup(sim.Stop)
	s.createDeployment(withBehavior(withCPURequest("400", newDeployment("played", 1)), "Unschedulable"))
	s.waitFor("the pod that does not fit", func(state watcher.State) bool { return firstProblem(s.podsOf(state, "played")) == "Unschedulable" })
	simulatedStatus := s.podsOf(s.w.State(), "played")[0].Status
	if diff := diffStatus(realStatus, simulatedStatus); diff != "" {
		t.Errorf("kube-scheduler (-) and simulator (+) differ: %s", diff)
	}
}

func withCPURequest(cpu string, d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return d
}
