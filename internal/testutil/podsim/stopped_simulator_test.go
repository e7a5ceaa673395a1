package podsim_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// Tests that stop the simulator: each has its own, on one control plane.
func TestStoppedSimulator(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{})
	for name, story := range map[string]func(*harness){
		"nothing is written twice":             syncIsIdempotent,
		"pods of other schedulers are ignored": otherSchedulersPodsAreIgnored,
		"a second simulator continues":         secondSimulatorContinues,
	} {
		t.Run(name, func(t *testing.T) { story(newHarnessOn(t, plane)) })
	}
}

// syncIsIdempotent checks that a status is written only once.
func syncIsIdempotent(s *harness) {
	cases := map[string]struct {
		behavior podsim.Behavior
		problem  string
	}{
		"ready":         {podsim.Ready(), ""},
		"unready":       {podsim.NeverReady(), "app: not ready"},
		"hang":          {podsim.Hang(), "app: ContainerCreating"},
		"image":         {podsim.ImageNotFound(), "app: ImagePullBackOff"},
		"crash":         {podsim.CrashLoop(1).WithRestarts(1, time.Millisecond), "app: CrashLoopBackOff"},
		"unschedulable": {podsim.Unschedulable(), "Unschedulable"},
	}
	s.sim.SetBehavior(func(pod *corev1.Pod) podsim.Behavior { return cases[pod.Labels["app"]].behavior })
	for app, want := range cases {
		s.createPod(app, "")
		s.waitFor(app+" to become stable", func(state watcher.State) bool {
			return firstProblem(s.podsOf(state, app)) == want.problem && isReady(s.onlyPod(state, app)) == (want.problem == "")
		})
	}
	s.sim.Stop()
	before := len(s.w.Events())
	for app := range cases {
		s.check(s.sim.Sync(s.Context(), s.ns, s.onlyPod(s.w.State(), app).Name))
	}
	// This write is observed after all writes of the simulator.
	s.createPod("last", "Hang")
	s.waitFor("the last pod", func(state watcher.State) bool { return len(s.podsOf(state, "last")) == 1 })
	for _, e := range s.w.Events()[before:] {
		if e.Resource == pods && e.Object.GetNamespace() == s.ns && e.Object.GetLabels()["app"] != "last" {
			s.Errorf("unexpected write: %s", e)
		}
	}
}

// otherSchedulersPodsAreIgnored checks that pods of another scheduler and gated pods are not scheduled.
func otherSchedulersPodsAreIgnored(s *harness) {
	var names []string
	for name, change := range map[string]func(*corev1.PodSpec){
		"foreign": func(spec *corev1.PodSpec) { spec.SchedulerName = "somebody" },
		"gated": func(spec *corev1.PodSpec) {
			spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		},
	} {
		t := podTemplate(map[string]string{"app": name})
		change(&t.Spec)
		pod, err := s.client.CoreV1().Pods(s.ns).Create(s.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: t.Labels}, Spec: t.Spec}, metav1.CreateOptions{})
		s.check(err)
		s.createPod("witness-"+name, "Ready")
		s.waitFor("a pod created later", func(state watcher.State) bool { return isReady(s.onlyPod(state, "witness-"+name)) })
		names = append(names, pod.Name)
	}
	s.sim.Stop()
	for _, name := range names {
		s.check(s.sim.Sync(s.Context(), s.ns, name))
		pod, err := s.client.CoreV1().Pods(s.ns).Get(s.Context(), name, metav1.GetOptions{})
		s.check(err)
		if pod.Spec.NodeName != "" {
			s.Errorf("pod %s was scheduled on %s", name, pod.Spec.NodeName)
		}
	}
}

// secondSimulatorContinues checks that a second simulator continues where the first one stopped.
func secondSimulatorContinues(s *harness) {
	s.createPod("first", "Ready")
	s.waitFor("the first pod", func(state watcher.State) bool { return isReady(s.onlyPod(state, "first")) })
	s.sim.Stop()
	s.createPod("second", "Ready")
	sim, err := podsim.Start(s.Context(), s.plane.Config)
	s.check(err)
	s.Cleanup(sim.Stop)
	s.waitFor("the second pod", func(state watcher.State) bool { return isReady(s.onlyPod(state, "second")) })

	first, second := s.onlyPod(s.w.State(), "first"), s.onlyPod(s.w.State(), "second")
	if first.Status.PodIP == second.Status.PodIP {
		s.Errorf("both pods have the address %s", first.Status.PodIP)
	}
	if n := first.Status.ContainerStatuses[0].RestartCount; n != 0 {
		s.Errorf("the first pod was restarted %d times by the change of simulator", n)
	}
}
