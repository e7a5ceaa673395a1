package explain

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The defaults of Kubernetes for probes, and the minimum grace period: a program that was just
// started needs a moment.
const (
	defaultProbePeriod      = 10
	defaultFailureThreshold = 3
	minGrace                = 15 * time.Second
)

// checkReadiness reports a running container that is not ready, but not before its readiness probe
// could reach its failureThreshold, and not while its startup probe disables the readiness probe.
func (e *explainer) checkReadiness(c container) {
	running, probe := c.status.State.Running, c.spec.ReadinessProbe
	if running == nil || probe == nil || c.isInit {
		return
	}
	if started := c.status.Started; started != nil && !*started {
		return
	}
	if end := running.StartedAt.Add(probeGrace(probe)); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	target := describeProbe(probe)
	all := evidence(fmt.Sprintf("restarts: %d", c.status.RestartCount), "running since "+running.StartedAt.UTC().Format(time.RFC3339))
	if ev, ok := e.latestEvent(podRef(c.pod), []string{reasonUnhealthy}, "Readiness probe"); ok {
		all = append(all, ev.String())
	}
	message, fix := fmt.Sprintf("%s runs but does not pass its readiness probe (%s)", c.title(), target),
		"Make the application answer the probe, or correct its spec.probes.readiness"
	if tcp := probe.TCPSocket; tcp != nil {
		message = fmt.Sprintf("%s runs, but nothing listens on %s, which its readiness probe connects to", c.title(), target)
		if e.snapshot.DefaultReadinessProbe {
			fix = fmt.Sprintf("Make the application listen on port %s on all addresses, or correct port and targetPort in spec.ports", tcp.Port.String())
		}
	}
	e.addPodCause(c.pod, e.causeKey(c), Cause{
		Code: ReadinessFailing, Path: c.specPath + ".readinessProbe", Value: target, Since: c.unreadySince(),
		Message: message, Fix: fix + "; the probe results are in the events: " + describePodCommand(c.pod), Evidence: all,
	})
}

// Event reasons of probes.
const (
	reasonUnhealthy = "Unhealthy"
	reasonKilling   = "Killing"
)

// checkStartup reports a container that exceeded the time of its startup probe. It returns true if the
// startup probe has not succeeded yet.
func (e *explainer) checkStartup(c container) bool {
	running, probe := c.status.State.Running, c.spec.StartupProbe
	if running == nil || probe == nil || c.status.Started == nil || *c.status.Started {
		return false
	}
	if end := running.StartedAt.Add(probeGrace(probe)); e.now.Before(end) {
		e.scheduleRecheck(end)
		return true
	}
	e.addProbeFailure(c, StartupFailing, "startup", probe, Event{})
	return true
}

// probeKillEvent returns the event of the kubelet that killed a container because of a failed probe, and
// the name of that probe.
func (e *explainer) probeKillEvent(c container) (probe string, ev Event, found bool) {
	for _, probe := range []string{"liveness", "startup"} {
		ev, ok := e.latestEvent(podRef(c.pod), []string{reasonKilling}, "Container "+c.status.Name+" failed "+probe+" probe")
		if ok && e.now.Before(ev.LastSeen.Add(crashWindow)) {
			return probe, ev, true
		}
	}
	return "", Event{}, false
}

// addProbeRestart reports a container that the kubelet killed because of a failed probe. The exit code
// (0, 137 or 143) only depends on how the program handles SIGTERM.
func (e *explainer) addProbeRestart(c container) bool {
	probeName, ev, found := e.probeKillEvent(c)
	code, probe := LivenessRestarts, c.spec.LivenessProbe
	if probeName == "startup" {
		code, probe = StartupFailing, c.spec.StartupProbe
	}
	if !found || probe == nil {
		return false
	}
	prefix := strings.ToUpper(probeName[:1]) + probeName[1:] + " probe"
	if unhealthy, ok := e.latestEvent(podRef(c.pod), []string{reasonUnhealthy}, prefix); ok {
		ev = unhealthy
	}
	e.addProbeFailure(c, code, probeName, probe, ev)
	return true
}

// addProbeFailure reports a container that fails its liveness or startup probe.
func (e *explainer) addProbeFailure(c container, code Code, probeName string, probe *corev1.Probe, ev Event) {
	target := describeProbe(probe)
	message := fmt.Sprintf("%s does not pass its startup probe (%s) in time", c.title(), target)
	if code == LivenessRestarts {
		message = fmt.Sprintf("%s is restarted repeatedly because it does not pass its liveness probe (%s)", c.title(), target)
	}
	cause := Cause{
		Code: code, Path: c.specPath + "." + probeName + "Probe", Value: target, Since: c.unreadySince(), Message: message,
		Fix: fmt.Sprintf("Make the application answer the probe, or correct its spec.probes.%s; the probe results are in the events: %s",
			probeName, describePodCommand(c.pod)),
		Evidence: evidence(fmt.Sprintf("restarts: %d", c.status.RestartCount)),
	}
	if ev.Reason != "" {
		cause.Evidence = append(cause.Evidence, ev.String())
	}
	e.addPodCause(c.pod, e.causeKey(c), cause)
}

func probeGrace(p *corev1.Probe) time.Duration {
	period, failures := cmp.Or(p.PeriodSeconds, defaultProbePeriod), cmp.Or(p.FailureThreshold, defaultFailureThreshold)
	seconds := int64(p.InitialDelaySeconds) + int64(period)*int64(failures)
	return max(minGrace, time.Duration(min(seconds, math.MaxInt32))*time.Second)
}

// describeProbe describes the handler of a probe without parts that can contain secrets: headers,
// commands and the query of a URL.
func describeProbe(p *corev1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return fmt.Sprintf("HTTP %s on port %s", abbreviate(probePath(p.HTTPGet)), p.HTTPGet.Port.String())
	case p.TCPSocket != nil:
		return "TCP port " + p.TCPSocket.Port.String()
	case p.GRPC != nil:
		return fmt.Sprintf("gRPC port %d", p.GRPC.Port)
	case p.Exec != nil:
		return "a command"
	}
	return "unknown probe type"
}

func probePath(get *corev1.HTTPGetAction) string {
	path, _, _ := strings.Cut(get.Path, "?")
	return cmp.Or(path, "/")
}
