package explain

import (
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func tcpProbe(port int) corev1.ProbeHandler {
	return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(port)}}
}

func withReadinessProbe(p corev1.Probe) podOption {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].ReadinessProbe = &p }
}

func withStartupProbe(p corev1.Probe) podOption {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].StartupProbe = &p }
}

func probeCases() map[string]podCase {
	cause := func(what, started string) []Cause {
		message := "Container app of Pod web-1 runs but does not pass its readiness probe (" + what + ")"
		if strings.HasPrefix(what, "TCP") {
			message = "Container app of Pod web-1 runs, but nothing listens on " + what + ", which its readiness probe connects to"
		}
		return []Cause{{
			Code: "ReadinessFailing", Object: testPodRef("web-1"), Path: "spec.containers[0].readinessProbe", Value: what, Since: testNow.Add(-unreadyFor),
			Message: message,
			Fix: "Make the application answer the probe, or correct its spec.probes.readiness; the probe results are in the events: kubectl " +
				"describe pod -n shop web-1",
			Evidence: []string{"1 of 1 pods", "restarts: 0", "running since " + started},
		}}
	}
	onePod := func(changes ...podOption) []*corev1.Pod { return []*corev1.Pod{pod("web-1", changes...)} }
	quick := corev1.Probe{ProbeHandler: tcpProbe(8080), PeriodSeconds: 1, FailureThreshold: 1}
	slow := corev1.Probe{ProbeHandler: tcpProbe(8080), InitialDelaySeconds: 60, PeriodSeconds: 5, FailureThreshold: 6}
	starting := withAppStatus(func(s *corev1.ContainerStatus) { s.Started = new(false) })
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers[0].ReadinessProbe = &quick
	}
	runningStatus := corev1.ContainerStatus{Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ago(time.Minute)}}}
	inSidecar := cause("TCP port 8080", "2026-03-01T11:59:00Z")
	inSidecar[0].Path = "spec.initContainers[0].readinessProbe"
	inSidecar[0].Message = "Container proxy of Pod web-1 runs, but nothing listens on TCP port 8080, which its readiness probe connects to"
	soon := testNow.Add(time.Second)
	stories := map[string]podCase{
		"within the default grace period": {onePod(running(29*time.Second), withReadinessProbe(corev1.Probe{ProbeHandler: tcpProbe(8080)})),
			nil, soon},
		"within the minimum grace period":     {onePod(running(14*time.Second), withReadinessProbe(quick)), nil, soon},
		"within the configured grace period":  {onePod(running(80*time.Second), withReadinessProbe(slow)), nil, testNow.Add(10 * time.Second)},
		"startup probe has not succeeded yet": {onePod(running(podAge), withReadinessProbe(quick), starting), nil, time.Time{}},
		"not ready without a probe":           {onePod(running(podAge)), nil, time.Time{}},
		"init container is still running": {onePod(waiting("PodInitializing", ""), withInitContainer("migrate", runningStatus)), []Cause{{
			Code: "InitBlocked", Severity: Notice, Object: testPodRef("web-1"), Path: "status.initContainerStatuses[0].state.running", Value: "migrate", Since: testNow.Add(-time.Minute),
			Message: "Init container migrate of Pod web-1 is still running; the other containers of the pod start after it completes",
			Fix:     "Check its logs: kubectl logs -n shop web-1 -c migrate", Evidence: []string{"1 of 1 pods"},
		}}, time.Time{}},
		"recheck at the end of the first grace period": {
			pods: []*corev1.Pod{
				pod("web-1", running(10*time.Second), withReadinessProbe(quick)),
				pod("web-2", running(14*time.Second), withReadinessProbe(quick)),
				pod("web-3", running(12*time.Second), withReadinessProbe(quick)),
			},
			recheckAt: soon,
		},
		"fails after the default grace period": {
			pods: onePod(running(30*time.Second), withReadinessProbe(corev1.Probe{ProbeHandler: tcpProbe(8080)})),
			want: cause("TCP port 8080", "2026-03-01T11:59:30Z"),
		},
		"fails after the minimum grace period": {
			pods: onePod(running(15*time.Second), withReadinessProbe(quick)),
			want: cause("TCP port 8080", "2026-03-01T11:59:45Z"),
		},
		"fails without status.started": {
			pods: onePod(running(podAge), withReadinessProbe(quick), withAppStatus(func(s *corev1.ContainerStatus) { s.Started = nil })),
			want: cause("TCP port 8080", "2026-03-01T11:00:00Z"),
		},
		"sidecar fails": {
			pods: onePod(waiting("PodInitializing", ""), withInitContainer("proxy", runningStatus), sidecar),
			want: inSidecar,
		},
	}
	stories["does not pass its startup probe"] = podCase{
		pods: onePod(running(time.Minute), starting, withStartupProbe(quick), withReadinessProbe(quick)),
		want: []Cause{{
			Code: StartupFailing, Object: testPodRef("web-1"), Path: "spec.containers[0].startupProbe", Value: "TCP port 8080",
			Since:   testNow.Add(-unreadyFor),
			Message: "Container app of Pod web-1 does not pass its startup probe (TCP port 8080) in time",
			Fix: "Make the application answer the probe, or correct its spec.probes.startup; " +
				"the probe results are in the events: kubectl describe pod -n shop web-1",
			Evidence: []string{"1 of 1 pods", "restarts: 0"},
		}},
	}
	stories["within the grace period of its startup probe"] = podCase{
		pods:      onePod(running(80*time.Second), starting, withStartupProbe(slow), withReadinessProbe(quick)),
		recheckAt: testNow.Add(10 * time.Second),
	}
	headers := []corev1.HTTPHeader{{Name: "Authorization", Value: "Basic eDp5"}}
	for what, handler := range map[string]corev1.ProbeHandler{
		"HTTP /ready on port http": {HTTPGet: &corev1.HTTPGetAction{Path: "/ready?key=secret", Port: intstr.FromString("http"), HTTPHeaders: headers}},
		"HTTP / on port 80":        {HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(80)}},
		"gRPC port 9000":           {GRPC: &corev1.GRPCAction{Port: 9000, Service: new("s")}},
		"a command":                {Exec: &corev1.ExecAction{Command: []string{"check", "--password=x"}}},
		"unknown probe type":       {},
	} {
		stories["fails: "+what] = podCase{
			pods: onePod(running(podAge), withReadinessProbe(corev1.Probe{ProbeHandler: handler})),
			want: cause(what, "2026-03-01T11:00:00Z"),
		}
	}
	return stories
}

func TestProbeGraceDoesNotOverflow(t *testing.T) {
	endless := &corev1.Probe{InitialDelaySeconds: math.MaxInt32, PeriodSeconds: math.MaxInt32, FailureThreshold: math.MaxInt32}
	if got := probeGrace(endless); got < 24*time.Hour {
		t.Errorf("grace period %s, want years", got)
	}
}

// A default probe is not in the spec, so the fix names the ports that it follows from.
func TestDefaultReadinessProbeNamesThePort(t *testing.T) {
	unready := pod("web-1", running(podAge), withReadinessProbe(corev1.Probe{ProbeHandler: tcpProbe(80)}))
	s := Snapshot{Pods: []*corev1.Pod{unready}, SpecPath: "spec.components[web].service", DefaultReadinessProbe: true}
	const want = "Make the application listen on port 80 on all addresses, or correct port and targetPort in spec.components[web].service.ports; " +
		"the probe results are in the events: kubectl describe pod -n shop web-1"
	if causes := Explain(s, testNow).Causes; len(causes) != 1 || causes[0].Fix != want {
		t.Errorf("got %+v, want the fix %q", causes, want)
	}
}
