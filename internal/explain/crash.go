package explain

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// crashWindow is how long a crash explains why a container is not ready although it is running again:
// a crash loop does not end with each restart.
const crashWindow = 10 * time.Minute

// stableAfter is how long a container must run after a crash to count as ready: without a readiness
// probe it is ready as soon as it starts, also in a crash loop.
const stableAfter = 30 * time.Second

// Reasons of terminated containers.
const (
	reasonOOMKilled = "OOMKilled"
	// The runtime could not start the process at all.
	reasonStartError = "StartError"
	reasonCannotRun  = "ContainerCannotRun"
	// The container was lost, for example when its node was restarted; its exit code is not
	// from the program.
	reasonUnknown       = "Unknown"
	reasonStatusUnknown = "ContainerStatusUnknown"
)

// Exit codes of processes that were killed by a signal.
const (
	exitSIGKILL = 137
	exitSIGTERM = 143
)

// lastTermination returns the last termination of a container and its field path; nil if the container
// never terminated.
func (c container) lastTermination() (*corev1.ContainerStateTerminated, string) {
	if t := c.status.State.Terminated; t != nil {
		return t, c.statusPath + ".state.terminated"
	}
	return c.status.LastTerminationState.Terminated, c.statusPath + ".lastState.terminated"
}

// crashedRecently reports whether a container without reason CrashLoopBackOff crashed within crashWindow.
func (e *explainer) crashedRecently(c container) bool {
	d, _ := c.lastTermination()
	if d == nil || d.Reason == reasonUnknown || d.Reason == reasonStatusUnknown {
		return false
	}
	if c.status.State.Terminated == nil && c.status.RestartCount == 0 {
		return false
	}
	until := d.FinishedAt.Add(crashWindow)
	if !e.now.Before(until) || d.ExitCode == 0 && d.Reason != reasonOOMKilled && !e.killedByProbe(c) {
		return false
	}
	e.scheduleRecheck(until)
	return true
}

// killedByProbe reports whether a container with exit code 0 was killed because of a failed probe:
// programs that handle SIGTERM exit with 0.
func (e *explainer) killedByProbe(c container) bool {
	if c.spec.LivenessProbe == nil && c.spec.StartupProbe == nil {
		return false
	}
	if _, _, killed := e.probeKillEvent(c); killed {
		return true
	}
	e.needEvents(podRef(c.pod))
	return false
}

// hasRestarted reports whether a container of the pod is running after a restart.
func hasRestarted(pod *corev1.Pod) bool {
	runsAgain := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil && s.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, runsAgain) || slices.ContainsFunc(pod.Status.InitContainerStatuses, runsAgain)
}

// restartedRecently reports whether a ready container has not run long enough since its last crash to
// count as ready.
func (e *explainer) restartedRecently(c container) bool {
	r, minRuntime := c.status.State.Running, stableAfter
	if p := c.spec.LivenessProbe; p != nil {
		minRuntime = max(minRuntime, probeGrace(p)+stableAfter) // the probe can kill it again until then
	}
	if r == nil || !e.now.Before(r.StartedAt.Add(minRuntime)) || !e.crashedRecently(c) {
		return false
	}
	e.scheduleRecheck(r.StartedAt.Add(minRuntime))
	return true
}

// addCrash reports a container that terminated but should keep running.
func (e *explainer) addCrash(c container) {
	d, path := c.lastTermination()
	if d == nil {
		e.addPodCause(c.pod, e.causeKey(c), Cause{
			Code: CrashLoop, Path: c.statusPath + ".state.waiting.reason", Value: reasonCrashLoopBackOff, Since: c.unreadySince(),
			Message:  c.title() + " exits repeatedly soon after it starts",
			Fix:      c.logsFix(false),
			Evidence: c.crashEvidence(nil),
		})
		return
	}
	switch {
	case d.Reason == reasonOOMKilled:
		e.addPodCause(c.pod, e.causeKey(c), c.oomCause(d, path))
		return
	case d.Reason == reasonStartError || d.Reason == reasonCannotRun:
		e.addStartError(c, d.Reason, lastLine(d.Message), path)
		return
	case e.addProbeRestart(c):
		return
	}
	code := CrashLoop
	if d.ExitCode == exitSIGKILL || d.ExitCode == exitSIGTERM {
		code = Killed
	}
	if code == Killed || c.spec.LivenessProbe != nil || c.spec.StartupProbe != nil {
		e.needEvents(podRef(c.pod)) // only events tell why it was killed
	}
	message, fix := c.crashMessage(d)
	e.addPodCause(c.pod, e.causeKey(c), Cause{
		Code: code, Path: path + ".exitCode", Value: strconv.Itoa(int(d.ExitCode)), Since: c.unreadySince(),
		Message: message, Fix: fix, Evidence: c.crashEvidence(d),
	})
}

func (c container) crashMessage(d *corev1.ContainerStateTerminated) (message, fix string) {
	switch d.ExitCode {
	case 0:
		return c.title() + " exited with code 0, but it should keep running",
			"Correct spec.command and spec.args of the application, so that the process stays in the foreground."
	case exitSIGKILL, exitSIGTERM:
		return fmt.Sprintf("%s was killed by a signal, but not by the OOM killer (exit code %d)", c.title(), d.ExitCode),
			"Check the events of the pod for a failing liveness probe or another reason: " + describePodCommand(c.pod)
	}
	return fmt.Sprintf("%s crashes: it exited with code %d", c.title(), d.ExitCode), c.logsFix(c.status.State.Terminated == nil)
}

func (c container) logsFix(previous bool) string {
	flag := ""
	if previous {
		flag = " --previous"
	}
	return fmt.Sprintf("Check the last log lines of the container: kubectl logs -n %s %s -c %s%s",
		c.pod.Namespace, c.pod.Name, c.status.Name, flag)
}

func (c container) oomCause(d *corev1.ContainerStateTerminated, path string) Cause {
	cause := Cause{
		Code: OOMKilled, Path: path + ".reason", Value: reasonOOMKilled, Since: c.unreadySince(),
		Message:  c.title() + " was killed by the OOM killer, although it has no memory limit",
		Fix:      "Set spec.resources.requests.memory and spec.resources.limits.memory of the application to its actual memory usage.",
		Evidence: c.crashEvidence(d),
	}
	if limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
		cause.Path, cause.Value = c.specPath+".resources.limits.memory", limit.String()
		cause.Message = fmt.Sprintf("%s was killed because it used more than its memory limit of %s", c.title(), cause.Value)
		cause.Fix = "Raise spec.resources.limits.memory of the application, or reduce its memory usage."
	}
	return cause
}

// crashEvidence returns the evidence for a crashed container.
func (c container) crashEvidence(d *corev1.ContainerStateTerminated) []string {
	all := []string{fmt.Sprintf("restarts: %d", c.status.RestartCount)}
	if d == nil {
		return all
	}
	return append(all, terminationEvidence(d)...)
}

// terminationEvidence returns the evidence for a terminated container. Its output can contain secrets,
// so it is evidence only.
func terminationEvidence(d *corev1.ContainerStateTerminated) []string {
	all := []string{fmt.Sprintf("exit code %d, reason %q", d.ExitCode, plaintext.Line(d.Reason, maxEvidence/4))}
	if out := lastLine(d.Message); out != "" {
		all = append(all, "last output: "+out)
	}
	return all
}
