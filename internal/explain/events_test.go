package explain

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestCausesFromEvents covers causes that only events show, and which events are requested.
func TestCausesFromEvents(t *testing.T) {
	withLivenessProbe := func(p *corev1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: tcpProbe(80), PeriodSeconds: 1, FailureThreshold: 1}
	}
	killed := Event{Object: podRef(pod("web-1")), Reason: "Killing", Message: "Container app failed liveness probe, will be restarted", LastSeen: testNow.Add(-time.Minute)}
	old := killed
	old.LastSeen = testNow.Add(-11 * time.Minute)
	other := killed
	other.Message = "Container side failed liveness probe, will be restarted"
	exitedZero := restarted(3, termination(0, "Completed", "", 20*time.Second))
	markReady := withAppStatus(func(s *corev1.ContainerStatus) { s.Ready = true })
	cases := map[string]struct {
		pod         *corev1.Pod
		events      []Event
		want        []Code
		needsEvents bool
	}{
		"exit code 0 with a probe, no event": {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero),
			needsEvents: true},
		"exit code 0 without a probe": {pod: pod("web-1", running(10*time.Second), ready, markReady, exitedZero)},
		"exit code 0 after a failed probe": {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero),
			events: []Event{killed}, want: []Code{LivenessRestarts}},
		"stable since the last restart": {pod: pod("web-1", running(time.Minute), ready, markReady, withLivenessProbe, exitedZero),
			events: []Event{killed}},
		"probe failed long ago": {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero),
			events: []Event{old}, needsEvents: true},
		"probe of another container failed": {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero),
			events: []Event{other}, needsEvents: true},
		"killed without an event": {pod: pod("web-1", running(10*time.Second),
			restarted(3, termination(137, "Error", "", 20*time.Second))), want: []Code{Killed}, needsEvents: true},
		"killed after a failed probe": {pod: pod("web-1", running(10*time.Second), withLivenessProbe,
			restarted(3, termination(137, "Error", "", 20*time.Second))), events: []Event{killed}, want: []Code{LivenessRestarts}},
		"being created without an event": {pod: pod("web-1", waiting("ContainerCreating", "")), needsEvents: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*corev1.Pod{tc.pod, ProjectPod(tc.pod)} {
				a := Explain(Snapshot{Pods: []*corev1.Pod{p}, Events: tc.events}, testNow)
				var got []Code
				for _, c := range a.Causes {
					got = append(got, c.Code)
				}
				if needsEvents := len(a.EventsNeeded) > 0; !slices.Equal(got, tc.want) || needsEvents != tc.needsEvents {
					t.Errorf("causes %v, needs events: %t; want %v, %t", got, needsEvents, tc.want, tc.needsEvents)
				}
			}
		})
	}
}
