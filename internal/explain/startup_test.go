package explain

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// withReadinessGates makes all containers ready and adds two readiness gates.
func withReadinessGates(since time.Duration, open bool) podOption {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].Ready = true
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/dns"}, {ConditionType: "example.com/lb"}}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: "PodScheduled", Status: "True", LastTransitionTime: ago(podAge)},
			{Type: "ContainersReady", Status: "True", LastTransitionTime: ago(podAge)},
			{Type: "Ready", Status: "False", Reason: "ReadinessGatesNotReady", LastTransitionTime: ago(since)},
		}
		if open {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/dns", Status: "True"})
		}
	}
}

func startupCases() map[string]podCase {
	const (
		waitingPath = "status.containerStatuses[0].state.waiting"
		commandFix  = "Correct spec.command and spec.args of the application, or the entrypoint of its image."
		denied      = `exec: "/app": permission denied`
	)
	onePod := func(changes ...podOption) []*corev1.Pod { return []*corev1.Pod{pod("web-1", changes...)} }
	startError := func(reason, detail, fix, message string) []Cause {
		return []Cause{{
			Code: StartError, Object: testPodRef("web-1"), Path: waitingPath, Value: reason, Since: testNow.Add(-unreadyFor),
			Message: "Container app of Pod web-1 cannot be started: " + detail, Fix: fix,
			Evidence: []string{"1 of 1 pods", "restarts: 0", message},
		}}
	}
	migrating := withInitContainer("migrate", corev1.ContainerStatus{
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(50 * time.Second)}}})
	migratesNext := withInitContainer("migrate", corev1.ContainerStatus{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}})
	return map[string]podCase{
		"command is not executable": {
			pods: onePod(waiting("RunContainerError", denied)),
			want: startError("RunContainerError", "no permission to execute its command", commandFix, denied),
		},
		"runtime cannot create the container": {
			pods: onePod(waiting("CreateContainerError", "name is reserved")),
			want: startError("CreateContainerError", "the container runtime cannot create it",
				"Check the events of the pod and correct the application; for details: kubectl describe pod -n shop web-1", "name is reserved"),
		},
		"init container runs within its grace period": {
			pods: onePod(waiting("PodInitializing", ""), migrating), recheckAt: testNow.Add(10 * time.Second),
		},
		"init container has not started": {pods: onePod(waiting("PodInitializing", ""), running(podAge), migratesNext)},
	}
}

// These cases are not part of podCases because each change of readiness restarts the grace period.
func TestReadinessGates(t *testing.T) {
	gate := func(condition string) Cause {
		return Cause{
			Code: ReadinessGate, Object: testPodRef("web-1"), Path: "spec.readinessGates", Value: condition,
			Since:        testNow.Add(-time.Minute),
			Message:      "All containers of Pod web-1 are ready, but readiness gate " + condition + " is not true",
			Fix:          "Check the controller that sets this pod condition.",
			AffectedPods: 1, Evidence: []string{"1 of 1 pods"},
		}
	}
	for name, project := range map[string]func(*corev1.Pod) *corev1.Pod{"full": (*corev1.Pod).DeepCopy, "projected": ProjectPod} {
		snapshot := func(since time.Duration, open bool) Snapshot {
			return Snapshot{Pods: []*corev1.Pod{project(pod("web-1", running(podAge), withReadinessGates(since, open)))}}
		}
		checkDiagnoses(t, map[string]snapshotCase{
			name + " pod, both gates are closed": {
				snapshot(time.Minute, false),
				Diagnosis{Causes: []Cause{gate("example.com/dns"), gate("example.com/lb")}},
			},
			name + " pod, one of two is closed":    {snapshot(time.Minute, true), oneCause(gate("example.com/lb"))},
			name + " pod, within its grace period": {snapshot(5*time.Second, false), Diagnosis{RecheckAt: testNow.Add(10 * time.Second)}},
		})
	}
}
