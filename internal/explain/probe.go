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
	probePeriod   = 10
	probeFailures = 3
	minSilence    = 15 * time.Second
)

// readiness is a container that runs and is not ready. Until its probe had the chance to
// fail as often as it may, that means nothing, and neither does it while the startup
// probe holds the others back.
func (e *examiner) readiness(c container) {
	running, probe := c.status.State.Running, c.spec.ReadinessProbe
	if running == nil || probe == nil || c.first {
		return
	}
	if started := c.status.Started; started != nil && !*started {
		return
	}
	if end := running.StartedAt.Add(patience(probe)); e.now.Before(end) {
		e.look(end)
		return
	}
	what := describe(probe)
	all := evidence(fmt.Sprintf("restarts: %d", c.status.RestartCount), "running since "+running.StartedAt.UTC().Format(time.RFC3339))
	if ev, ok := e.event(podObject(c.pod), []string{reasonUnhealthy}, "Readiness probe"); ok {
		all = append(all, ev.String())
	}
	e.add(c.pod, c.own(), Cause{
		Code: ReadinessFailing, Path: c.specPath + ".readinessProbe", Value: what, Since: c.since(),
		Sentence: fmt.Sprintf("%s runs but does not pass its readiness probe (%s)", c.title(), what),
		Fix:      "Let the application answer, or correct its spec.probes.readiness; what the probe got is shown by " + lookUp(c.pod),
		Evidence: all,
	})
}

// Reasons of events about probes.
const (
	reasonUnhealthy = "Unhealthy"
	reasonKilling   = "Killing"
)

// startup is a container that has had all the time its startup probe gives it. It says
// whether that probe is what the container waits for.
func (e *examiner) startup(c container) bool {
	running, probe := c.status.State.Running, c.spec.StartupProbe
	if running == nil || probe == nil || c.status.Started == nil || *c.status.Started {
		return false
	}
	if end := running.StartedAt.Add(patience(probe)); e.now.Before(end) {
		e.look(end)
		return true
	}
	e.unprobed(c, StartupFailing, "startup", probe, Event{})
	return true
}

// killing is the event that says that kubelet ended a container because of a probe, and
// which one that was.
func (e *examiner) killing(c container) (probe string, ev Event, found bool) {
	for _, probe := range []string{"liveness", "startup"} {
		ev, ok := e.event(podObject(c.pod), []string{reasonKilling}, "Container "+c.status.Name+" failed "+probe+" probe")
		if ok && e.now.Before(ev.Last.Add(crashLasts)) {
			return probe, ev, true
		}
	}
	return "", Event{}, false
}

// probedToDeath is a container that kubelet ends because of a probe. How it then ends,
// with 0, 137 or 143, is its own affair.
func (e *examiner) probedToDeath(c container) bool {
	which, ev, found := e.killing(c)
	code, probe := LivenessRestarts, c.spec.LivenessProbe
	if which == "startup" {
		code, probe = StartupFailing, c.spec.StartupProbe
	}
	if !found || probe == nil {
		return false
	}
	said := strings.ToUpper(which[:1]) + which[1:] + " probe"
	if got, ok := e.event(podObject(c.pod), []string{reasonUnhealthy}, said); ok {
		ev = got
	}
	e.unprobed(c, code, which, probe, ev)
	return true
}

// unprobed is a container that a probe ends.
func (e *examiner) unprobed(c container, code Code, which string, probe *corev1.Probe, ev Event) {
	what := describe(probe)
	sentence := fmt.Sprintf("%s does not pass its startup probe (%s) in the time it has for that", c.title(), what)
	if code == LivenessRestarts {
		sentence = fmt.Sprintf("%s is started anew again and again, because it does not pass its liveness probe (%s)", c.title(), what)
	}
	cause := Cause{
		Code: code, Path: c.specPath + "." + which + "Probe", Value: what, Since: c.since(), Sentence: sentence,
		Fix:      fmt.Sprintf("Let the application answer, or correct its spec.probes.%s; what the probe got is shown by %s", which, lookUp(c.pod)),
		Evidence: evidence(fmt.Sprintf("restarts: %d", c.status.RestartCount)),
	}
	if ev.Reason != "" {
		cause.Evidence = append(cause.Evidence, ev.String())
	}
	e.add(c.pod, c.own(), cause)
}

func patience(p *corev1.Probe) time.Duration {
	period, failures := cmp.Or(p.PeriodSeconds, probePeriod), cmp.Or(p.FailureThreshold, probeFailures)
	seconds := int64(p.InitialDelaySeconds) + int64(period)*int64(failures)
	return max(minSilence, time.Duration(min(seconds, math.MaxInt32))*time.Second)
}

// describe says what a probe asks, without what may be secret in it: headers, commands
// and the query of a URL stay out.
func describe(p *corev1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return fmt.Sprintf("HTTP %s on port %s", short(urlPath(p.HTTPGet)), p.HTTPGet.Port.String())
	case p.TCPSocket != nil:
		return "TCP port " + p.TCPSocket.Port.String()
	case p.GRPC != nil:
		return fmt.Sprintf("gRPC port %d", p.GRPC.Port)
	case p.Exec != nil:
		return "a command"
	}
	return "of a kind not known here"
}

func urlPath(get *corev1.HTTPGetAction) string {
	path, _, _ := strings.Cut(get.Path, "?")
	return cmp.Or(path, "/")
}
