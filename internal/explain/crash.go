package explain

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// crashWindow is how long a crash explains why a container is not ready, although it runs
// again: a crash loop is not over each time it starts anew.
const crashWindow = 10 * time.Minute

// stableAfter is how long a container must run after a crash to be believed: one without a
// readiness probe counts as ready the moment it starts, and in a crash loop that is again
// and again.
const stableAfter = 30 * time.Second

// Reasons of terminated containers.
const (
	reasonOOMKilled = "OOMKilled"
	// The runtime could not start the process at all.
	reasonStartError = "StartError"
	reasonCannotRun  = "ContainerCannotRun"
	// The container was lost, for example when its node was restarted; its exit code is
	// made up.
	reasonUnknown       = "Unknown"
	reasonStatusUnknown = "ContainerStatusUnknown"
)

// Exit codes of processes that were killed or asked to end by somebody else.
const (
	exitSIGKILL = 137
	exitSIGTERM = 143
)

// lastTermination is the last end of a container and the field that tells about it; nil if it
// never ended.
func (c container) lastTermination() (*corev1.ContainerStateTerminated, string) {
	if t := c.status.State.Terminated; t != nil {
		return t, c.statusPath + ".state.terminated"
	}
	return c.status.LastTerminationState.Terminated, c.statusPath + ".lastState.terminated"
}

// crashedRecently says whether a container that does not say so itself is in a crash loop.
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

// killedByProbe says whether a container that ended well was told to: one that fails a probe
// is, and programs of good manners then exit with 0.
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

// hasRestarted says whether a container of the pod runs again after it ended.
func hasRestarted(pod *corev1.Pod) bool {
	runsAgain := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil && s.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, runsAgain) || slices.ContainsFunc(pod.Status.InitContainerStatuses, runsAgain)
}

// restartedRecently says whether a container that is ready has run too briefly since its last crash
// to be believed.
func (e *explainer) restartedRecently(c container) bool {
	r, minRuntime := c.status.State.Running, stableAfter
	if p := c.spec.LivenessProbe; p != nil {
		minRuntime = max(minRuntime, probeGrace(p)+stableAfter) // it may be ended then, as it was before
	}
	if r == nil || !e.now.Before(r.StartedAt.Add(minRuntime)) || !e.crashedRecently(c) {
		return false
	}
	e.scheduleRecheck(r.StartedAt.Add(minRuntime))
	return true
}

// addCrash is a container that ends and should not.
func (e *explainer) addCrash(c container) {
	d, path := c.lastTermination()
	if d == nil {
		e.addPodCause(c.pod, c.causeKey(), Cause{
			Code: CrashLoop, Path: c.statusPath + ".state.waiting.reason", Value: reasonCrashLoopBackOff, Since: c.unreadySince(),
			Message:  c.title() + " ends again and again soon after it starts",
			Fix:      c.logsFix(false),
			Evidence: c.crashEvidence(nil),
		})
		return
	}
	switch {
	case d.Reason == reasonOOMKilled:
		e.addPodCause(c.pod, c.causeKey(), c.oomCause(d, path))
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
		e.needEvents(podRef(c.pod)) // only events tell who ended it
	}
	message, fix := c.crashMessage(d)
	e.addPodCause(c.pod, c.causeKey(), Cause{
		Code: code, Path: path + ".exitCode", Value: strconv.Itoa(int(d.ExitCode)), Since: c.unreadySince(),
		Message: message, Fix: fix, Evidence: c.crashEvidence(d),
	})
}

func (c container) crashMessage(d *corev1.ContainerStateTerminated) (message, fix string) {
	switch d.ExitCode {
	case 0:
		return c.title() + " ends although it should keep running: it exited with code 0",
			"Correct spec.command and spec.args of the application, so that its process stays in the foreground."
	case exitSIGKILL, exitSIGTERM:
		return fmt.Sprintf("%s is killed from outside, and not for its use of memory (exit code %d)", c.title(), d.ExitCode),
			"Look for a failing liveness probe, or for who ends it, in the events of the pod: " + describePodCommand(c.pod)
	}
	return fmt.Sprintf("%s crashes: it exited with code %d", c.title(), d.ExitCode), c.logsFix(c.status.State.Terminated == nil)
}

func (c container) logsFix(previous bool) string {
	flag := ""
	if previous {
		flag = " --previous"
	}
	return fmt.Sprintf("Read what it wrote last and correct what makes it end: kubectl logs -n %s %s -c %s%s",
		c.pod.Namespace, c.pod.Name, c.status.Name, flag)
}

func (c container) oomCause(d *corev1.ContainerStateTerminated, path string) Cause {
	cause := Cause{
		Code: OOMKilled, Path: path + ".reason", Value: reasonOOMKilled, Since: c.unreadySince(),
		Message:  c.title() + " was killed for its use of memory, although it has no memory limit of its own",
		Fix:      "Set spec.resources.requests.memory and spec.resources.limits.memory of the application to what it needs.",
		Evidence: c.crashEvidence(d),
	}
	if limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
		cause.Path, cause.Value = c.specPath+".resources.limits.memory", limit.String()
		cause.Message = fmt.Sprintf("%s was killed because it used more than its memory limit of %s", c.title(), cause.Value)
		cause.Fix = "Raise spec.resources.limits.memory of the application, or let it use less memory."
	}
	return cause
}

// crashEvidence is what is known about how a container ended.
func (c container) crashEvidence(d *corev1.ContainerStateTerminated) []string {
	all := []string{fmt.Sprintf("restarts: %d", c.status.RestartCount)}
	if d == nil {
		return all
	}
	return append(all, terminationEvidence(d)...)
}

// terminationEvidence is what a container left behind. Its output may contain anything, secrets
// included, so it is here and nowhere else.
func terminationEvidence(d *corev1.ContainerStateTerminated) []string {
	all := []string{fmt.Sprintf("exit code %d, reason %q", d.ExitCode, sanitize(d.Reason, maxEvidence/4))}
	if out := lastLine(d.Message); out != "" {
		all = append(all, "last output: "+out)
	}
	return all
}
