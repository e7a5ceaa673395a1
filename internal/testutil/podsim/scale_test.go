package podsim_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// TestHundredDeployments simulates a cluster full of pods within seconds, with some failing pods that look like real
// failures.
func TestHundredDeployments(t *testing.T) {
	const n = 100
	s := newHarness(t)
	start := time.Now()
	for i := range n {
		s.createDeployment(newDeployment(fmt.Sprintf("app-%03d", i), 3))
	}
	s.waitFor("all Deployments to have three ready pods", func(state watcher.State) bool {
		return allReady(state, s.ns, n, 3) && countReady(state.Live(pods)) == 3*n
	})
	t.Logf("%d Deployments with %d ready pods after %.1f s", n, 3*n, time.Since(start).Seconds())

	// Running pods fail: their Deployments have no available pods.
	s.setBehaviors(map[string]podsim.Behavior{"app-001": podsim.CrashLoop(1), "app-002": podsim.NeverReady()})
	// New pods fail: the rollout stops, the old pods keep running.
	s.setBehavior("app-003", "ImageNotFound")
	// New Deployments never become available.
	s.createDeployment(withBehavior(newDeployment("app-100", 3), "Unschedulable"))
	s.createDeployment(withBehavior(newDeployment("app-101", 3), "ImageNotFound"))

	for name, want := range map[string]struct {
		problem     string
		available   corev1.ConditionStatus
		progressing string
	}{
		"app-000": {"", corev1.ConditionTrue, "NewReplicaSetAvailable"},
		"app-001": {"app: CrashLoopBackOff", corev1.ConditionFalse, "NewReplicaSetAvailable"},
		"app-002": {"app: not ready", corev1.ConditionFalse, "NewReplicaSetAvailable"},
		"app-003": {"app: ImagePullBackOff", corev1.ConditionTrue, "ProgressDeadlineExceeded"},
		"app-100": {"Unschedulable", corev1.ConditionFalse, "ProgressDeadlineExceeded"},
		"app-101": {"app: ImagePullBackOff", corev1.ConditionFalse, "ProgressDeadlineExceeded"},
	} {
		s.waitFor(fmt.Sprintf("%s to show %q", name, want.problem), func(state watcher.State) bool {
			d := s.deployment(state, name)
			return deploymentCondition(d, "Available").Status == want.available &&
				deploymentCondition(d, "Progressing").Reason == want.progressing &&
				firstProblem(s.podsOf(state, name)) == want.problem
		})
	}
	t.Logf("five failing Deployments after %.1f s", time.Since(start).Seconds())
}
