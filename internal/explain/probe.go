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
	e.add(c.pod, c.own(), Cause{
		Code: ReadinessFailing, Path: c.specPath + ".readinessProbe", Value: what, Since: c.since(),
		Sentence: fmt.Sprintf("%s runs but does not pass its readiness probe (%s)", c.title(), what),
		Fix:      "Let the application answer, or correct its spec.probes.readiness; what the probe got is shown by " + lookUp(c.pod),
		Evidence: evidence(fmt.Sprintf("restarts: %d", c.status.RestartCount), "running since "+running.StartedAt.UTC().Format(time.RFC3339)),
	})
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
