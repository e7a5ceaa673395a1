package explain

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestEvents holds what only events tell, and who is asked for them.
func TestEvents(t *testing.T) {
	live := func(p *corev1.Pod) {
		p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: tcp(80), PeriodSeconds: 1, FailureThreshold: 1}
	}
	killed := Event{Object: podObject(pod("web-1")), Reason: "Killing", Message: "Container app failed liveness probe, will be restarted", Last: noon.Add(-time.Minute)}
	old := killed
	old.Last = noon.Add(-11 * time.Minute)
	other := killed
	other.Message = "Container side failed liveness probe, will be restarted"
	polite := restarted(3, end(0, "Completed", "", 20*time.Second))
	up := app(func(s *corev1.ContainerStatus) { s.Ready = true })
	cases := map[string]struct {
		pod    *corev1.Pod
		events []Event
		want   []Code
		asks   bool
	}{
		"ended well, nobody said why":            {pod: pod("web-1", running(10*time.Second), ready, up, live, polite), asks: true},
		"ended well, has no probe":               {pod: pod("web-1", running(10*time.Second), ready, up, polite)},
		"ended well, because of its probe":       {pod: pod("web-1", running(10*time.Second), ready, up, live, polite), events: []Event{killed}, want: []Code{LivenessRestarts}},
		"runs long enough to be believed":        {pod: pod("web-1", running(time.Minute), ready, up, live, polite), events: []Event{killed}},
		"the probe was long ago":                 {pod: pod("web-1", running(10*time.Second), ready, up, live, polite), events: []Event{old}, asks: true},
		"the probe of another container":         {pod: pod("web-1", running(10*time.Second), ready, up, live, polite), events: []Event{other}, asks: true},
		"killed, and nobody said by whom":        {pod: pod("web-1", running(10*time.Second), restarted(3, end(137, "Error", "", 20*time.Second))), want: []Code{Killed}, asks: true},
		"killed because of its probe":            {pod: pod("web-1", running(10*time.Second), live, restarted(3, end(137, "Error", "", 20*time.Second))), events: []Event{killed}, want: []Code{LivenessRestarts}},
		"being created, and nobody says why not": {pod: pod("web-1", waiting("ContainerCreating", "")), asks: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, p := range []*corev1.Pod{tc.pod, Project(tc.pod)} {
				a := Explain(Scene{Pods: []*corev1.Pod{p}, Events: tc.events}, noon)
				var got []Code
				for _, c := range a.Causes {
					got = append(got, c.Code)
				}
				if asks := len(a.Ask) > 0; !slices.Equal(got, tc.want) || asks != tc.asks {
					t.Errorf("got %v, asks %t; want %v, %t", got, asks, tc.want, tc.asks)
				}
			}
		})
	}
}
