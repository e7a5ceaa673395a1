package podsim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Each condition has a transition time and an observed generation.
func TestConditionTimes(t *testing.T) {
	pod := boundPod()
	runSteps(pod, step{Slow(5 * time.Second), 0})
	pod.Generation = 2
	runSteps(pod, step{Ready(), 8 * time.Second})
	want := map[corev1.PodConditionType]time.Time{
		"PodReadyToStartContainers": baseTime, "Initialized": baseTime, "PodScheduled": baseTime,
		"Ready": baseTime.Add(8 * time.Second), "ContainersReady": baseTime.Add(8 * time.Second),
	}
	got := map[corev1.PodConditionType]time.Time{}
	for _, c := range pod.Status.Conditions {
		got[c.Type] = c.LastTransitionTime.Time
		if c.ObservedGeneration != 2 {
			t.Errorf("%s: got observed generation %d, want 2", c.Type, c.ObservedGeneration)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if pod.Status.ObservedGeneration != 2 || !pod.Status.StartTime.Equal(new(at(0))) {
		t.Errorf("status: got observed generation %d, start time %s", pod.Status.ObservedGeneration, pod.Status.StartTime)
	}
}

func TestReadinessGates(t *testing.T) {
	gate := func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
	}
	setGate := func(status corev1.ConditionStatus) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/lb", Status: status})
		}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want corev1.PodCondition
	}{
		"condition not set": {boundPod(gate), corev1.PodCondition{Status: "False", Reason: "ReadinessGatesNotReady",
			Message: `corresponding condition of pod readiness gate "example.com/lb" does not exist.`}},
		"closed": {boundPod(gate, setGate("False")), corev1.PodCondition{Status: "False", Reason: "ReadinessGatesNotReady",
			Message: `the status of pod readiness gate "example.com/lb" is not "True", but False`}},
		"open": {boundPod(gate, setGate("True")), corev1.PodCondition{Status: "True"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			foreign := len(tc.pod.Status.Conditions) - 1
			runSteps(tc.pod, atStart(Ready())...)
			if got := len(tc.pod.Status.Conditions); got != 5+foreign {
				t.Errorf("got %d conditions, want five and %d of other controllers", got, foreign)
			}
			got := podReady(tc.pod, containersReady(tc.pod, &tc.pod.Status))
			tc.want.Type = corev1.PodReady
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFinalPodStatus(t *testing.T) {
	tests := map[string]struct {
		pod   *corev1.Pod
		steps []step
		want  string
	}{
		"ready":     {boundPod(), atStart(Ready()), "Succeeded\n" + completedConditions + "app ended Completed 0"},
		"crashing":  {boundPod(), afterOneHour(CrashLoop(3)), "Failed\n" + noSandbox + failedConditions + "app ended Error 3 restarts 3"},
		"never ran": {boundPod(), afterOneHour(ImageNotFound()), "Failed\n" + noSandbox + failedConditions + "app ended ContainerStatusUnknown 137"},
		"too early": {boundPod(), nil, "Failed\n" + noSandbox + failedConditions[:len(failedConditions)-1]},
		"with all kinds of containers": {boundPod(withInitContainer("setup"), withSidecar("proxy")), atStart(Ready()),
			"Succeeded\n" + completedConditions + "setup ended Completed 0 ready\nproxy ended Completed 0\napp ended Completed 0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runSteps(tc.pod, tc.steps...)
			if diff := cmp.Diff(tc.want, summarize(finalPodStatus(tc.pod, baseTime.Add(time.Minute)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnscheduledStatus(t *testing.T) {
	pod := boundPod()
	pod.Spec.NodeName, pod.Status.Conditions = "", nil
	pod.Status = unscheduledStatus(pod, "no room", baseTime)
	pod.Status = unscheduledStatus(pod, "still no room", baseTime.Add(time.Minute))
	want := corev1.PodStatus{
		Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort,
		Conditions: []corev1.PodCondition{{
			Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: "still no room",
			LastTransitionTime: at(0), ObservedGeneration: 1,
		}},
	}
	if diff := cmp.Diff(want, pod.Status); diff != "" {
		t.Error(diff)
	}
}
