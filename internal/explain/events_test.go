package explain

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestCausesFromEvents holds what only events tell, and who is asked for them.
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
		"ended well, nobody said why":            {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero), needsEvents: true},
		"ended well, has no probe":               {pod: pod("web-1", running(10*time.Second), ready, markReady, exitedZero)},
		"ended well, because of its probe":       {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero), events: []Event{killed}, want: []Code{LivenessRestarts}},
		"runs long enough to be believed":        {pod: pod("web-1", running(time.Minute), ready, markReady, withLivenessProbe, exitedZero), events: []Event{killed}},
		"the probe was long ago":                 {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero), events: []Event{old}, needsEvents: true},
		"the probe of another container":         {pod: pod("web-1", running(10*time.Second), ready, markReady, withLivenessProbe, exitedZero), events: []Event{other}, needsEvents: true},
		"killed, and nobody said by whom":        {pod: pod("web-1", running(10*time.Second), restarted(3, termination(137, "Error", "", 20*time.Second))), want: []Code{Killed}, needsEvents: true},
		"killed because of its probe":            {pod: pod("web-1", running(10*time.Second), withLivenessProbe, restarted(3, termination(137, "Error", "", 20*time.Second))), events: []Event{killed}, want: []Code{LivenessRestarts}},
		"being created, and nobody says why not": {pod: pod("web-1", waiting("ContainerCreating", "")), needsEvents: true},
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
					t.Errorf("got %v, asks %t; want %v, %t", got, needsEvents, tc.want, tc.needsEvents)
				}
			}
		})
	}
}
