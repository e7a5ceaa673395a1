package explain

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What Kubernetes assumes for a probe that does not say it, and the least that we wait:
// a program that has just been started may be silent for a moment.
const (
	defaultProbePeriod      = 10
	defaultFailureThreshold = 3
	minGrace                = 15 * time.Second
)

// checkReadiness is a container that runs and is not ready. Until its probe had the chance to
// fail as often as it may, that means nothing, and neither does it while the startup
// probe holds the others back.
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
	e.addPodCause(c.pod, c.causeKey(), Cause{
		Code: ReadinessFailing, Path: c.specPath + ".readinessProbe", Value: target, Since: c.unreadySince(),
		Message:  fmt.Sprintf("%s runs but does not pass its readiness probe (%s)", c.title(), target),
		Fix:      "Let the application answer, or correct its spec.probes.readiness; what the probe got is shown by " + describePodCommand(c.pod),
		Evidence: all,
	})
}

// Reasons of events about probes.
const (
	reasonUnhealthy = "Unhealthy"
	reasonKilling   = "Killing"
)

// checkStartup is a container that has had all the time its startup probe gives it. It says
// whether that probe is what the container waits for.
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

// probeKillEvent is the event that says that kubelet ended a container because of a probe, and
// which one that was.
func (e *explainer) probeKillEvent(c container) (probe string, ev Event, found bool) {
	for _, probe := range []string{"liveness", "startup"} {
		ev, ok := e.latestEvent(podRef(c.pod), []string{reasonKilling}, "Container "+c.status.Name+" failed "+probe+" probe")
		if ok && e.now.Before(ev.LastSeen.Add(crashWindow)) {
			return probe, ev, true
		}
	}
	return "", Event{}, false
}

// addProbeRestart is a container that kubelet ends because of a probe. How it then ends,
// with 0, 137 or 143, is its own affair.
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

// addProbeFailure is a container that a probe ends.
func (e *explainer) addProbeFailure(c container, code Code, probeName string, probe *corev1.Probe, ev Event) {
	target := describeProbe(probe)
	message := fmt.Sprintf("%s does not pass its startup probe (%s) in the time it has for that", c.title(), target)
	if code == LivenessRestarts {
		message = fmt.Sprintf("%s is started anew again and again, because it does not pass its liveness probe (%s)", c.title(), target)
	}
	cause := Cause{
		Code: code, Path: c.specPath + "." + probeName + "Probe", Value: target, Since: c.unreadySince(), Message: message,
		Fix:      fmt.Sprintf("Let the application answer, or correct its spec.probes.%s; what the probe got is shown by %s", probeName, describePodCommand(c.pod)),
		Evidence: evidence(fmt.Sprintf("restarts: %d", c.status.RestartCount)),
	}
	if ev.Reason != "" {
		cause.Evidence = append(cause.Evidence, ev.String())
	}
	e.addPodCause(c.pod, c.causeKey(), cause)
}

func probeGrace(p *corev1.Probe) time.Duration {
	period, failures := cmp.Or(p.PeriodSeconds, defaultProbePeriod), cmp.Or(p.FailureThreshold, defaultFailureThreshold)
	seconds := int64(p.InitialDelaySeconds) + int64(period)*int64(failures)
	return max(minGrace, time.Duration(min(seconds, math.MaxInt32))*time.Second)
}

// describeProbe says what a probe asks, without what may be secret in it: headers, commands
// and the query of a URL stay out.
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
	return "of a kind not known here"
}

func probePath(get *corev1.HTTPGetAction) string {
	path, _, _ := strings.Cut(get.Path, "?")
	return cmp.Or(path, "/")
}
