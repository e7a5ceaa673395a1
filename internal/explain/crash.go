package explain

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// crashLasts is how long a crash explains why a container is not ready, although it runs
// again: a crash loop is not over each time it starts anew.
const crashLasts = 10 * time.Minute

// proven is how long a container must run after a crash to be believed: one without a
// readiness probe counts as ready the moment it starts, and in a crash loop that is again
// and again.
const proven = 30 * time.Second

// Reasons of terminated containers.
const (
	reasonOOMKilled = "OOMKilled"
	// The runtime could not start the process at all.
	reasonStartError = "StartError"
	reasonCannotRun  = "ContainerCannotRun"
	// The container was lost, for example when its node was restarted; its exit code is
	// made up.
	reasonLost          = "Unknown"
	reasonStatusUnknown = "ContainerStatusUnknown"
)

// Exit codes of processes that were killed or asked to end by somebody else.
const (
	exitKilled = 137
	exitEnded  = 143
)

// death is the last end of a container and the field that tells about it; nil if it
// never ended.
func (c container) death() (*corev1.ContainerStateTerminated, string) {
	if t := c.status.State.Terminated; t != nil {
		return t, c.statusPath + ".state.terminated"
	}
	return c.status.LastTerminationState.Terminated, c.statusPath + ".lastState.terminated"
}

// crashedLately says whether a container that does not say so itself is in a crash loop.
func (e *examiner) crashedLately(c container) bool {
	d, _ := c.death()
	if d == nil || d.Reason == reasonLost || d.Reason == reasonStatusUnknown {
		return false
	}
	if c.status.State.Terminated == nil && c.status.RestartCount == 0 {
		return false
	}
	until := d.FinishedAt.Add(crashLasts)
	if !e.now.Before(until) || d.ExitCode == 0 && d.Reason != reasonOOMKilled && !e.endedByProbe(c) {
		return false
	}
	e.look(until)
	return true
}

// endedByProbe says whether a container that ended well was told to: one that fails a probe
// is, and programs of good manners then exit with 0.
func (e *examiner) endedByProbe(c container) bool {
	if c.spec.LivenessProbe == nil && c.spec.StartupProbe == nil {
		return false
	}
	if _, _, killed := e.killing(c); killed {
		return true
	}
	e.ask(podObject(c.pod))
	return false
}

// hasCrashed says whether a container of the pod runs again after it ended.
func hasCrashed(pod *corev1.Pod) bool {
	again := func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil && s.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, again) || slices.ContainsFunc(pod.Status.InitContainerStatuses, again)
}

// isBrief says whether a container that is ready has run too briefly since its last crash
// to be believed.
func (e *examiner) isBrief(c container) bool {
	r, enough := c.status.State.Running, proven
	if p := c.spec.LivenessProbe; p != nil {
		enough = max(enough, patience(p)+proven) // it may be ended then, as it was before
	}
	if r == nil || !e.now.Before(r.StartedAt.Add(enough)) || !e.crashedLately(c) {
		return false
	}
	e.look(r.StartedAt.Add(enough))
	return true
}

// crashed is a container that ends and should not.
func (e *examiner) crashed(c container) {
	d, path := c.death()
	if d == nil {
		e.add(c.pod, c.own(), Cause{
			Code: CrashLoop, Path: c.statusPath + ".state.waiting.reason", Value: reasonCrashLoopBackOff, Since: c.since(),
			Sentence: c.title() + " ends again and again soon after it starts",
			Fix:      c.readOutput(false),
			Evidence: c.endings(nil),
		})
		return
	}
	switch {
	case d.Reason == reasonOOMKilled:
		e.add(c.pod, c.own(), c.outOfMemory(d, path))
		return
	case d.Reason == reasonStartError || d.Reason == reasonCannotRun:
		e.unstarted(c, d.Reason, lastLine(d.Message), path)
		return
	case e.probedToDeath(c):
		return
	}
	code := CrashLoop
	if d.ExitCode == exitKilled || d.ExitCode == exitEnded {
		code = Killed
	}
	if code == Killed || c.spec.LivenessProbe != nil || c.spec.StartupProbe != nil {
		e.ask(podObject(c.pod)) // only events tell who ended it
	}
	sentence, fix := c.ending(d)
	e.add(c.pod, c.own(), Cause{
		Code: code, Path: path + ".exitCode", Value: strconv.Itoa(int(d.ExitCode)), Since: c.since(),
		Sentence: sentence, Fix: fix, Evidence: c.endings(d),
	})
}

func (c container) ending(d *corev1.ContainerStateTerminated) (sentence, fix string) {
	switch d.ExitCode {
	case 0:
		return c.title() + " ends although it should keep running: it exited with code 0",
			"Correct spec.command and spec.args of the application, so that its process stays in the foreground."
	case exitKilled, exitEnded:
		return fmt.Sprintf("%s is killed from outside, and not for its use of memory (exit code %d)", c.title(), d.ExitCode),
			"Look for a failing liveness probe, or for who ends it, in the events of the pod: " + lookUp(c.pod)
	}
	return fmt.Sprintf("%s crashes: it exited with code %d", c.title(), d.ExitCode), c.readOutput(c.status.State.Terminated == nil)
}

func (c container) readOutput(previous bool) string {
	flag := ""
	if previous {
		flag = " --previous"
	}
	return fmt.Sprintf("Read what it wrote last and correct what makes it end: kubectl logs -n %s %s -c %s%s",
		c.pod.Namespace, c.pod.Name, c.status.Name, flag)
}

func (c container) outOfMemory(d *corev1.ContainerStateTerminated, path string) Cause {
	cause := Cause{
		Code: OOMKilled, Path: path + ".reason", Value: reasonOOMKilled, Since: c.since(),
		Sentence: c.title() + " was killed for its use of memory, although it has no memory limit of its own",
		Fix:      "Set spec.resources.requests.memory and spec.resources.limits.memory of the application to what it needs.",
		Evidence: c.endings(d),
	}
	if limit, ok := c.spec.Resources.Limits[corev1.ResourceMemory]; ok {
		cause.Path, cause.Value = c.specPath+".resources.limits.memory", limit.String()
		cause.Sentence = fmt.Sprintf("%s was killed because it used more than its memory limit of %s", c.title(), cause.Value)
		cause.Fix = "Raise spec.resources.limits.memory of the application, or let it use less memory."
	}
	return cause
}

// endings is what is known about how a container ended.
func (c container) endings(d *corev1.ContainerStateTerminated) []string {
	all := []string{fmt.Sprintf("restarts: %d", c.status.RestartCount)}
	if d == nil {
		return all
	}
	return append(all, lastWords(d)...)
}

// lastWords is what a container left behind. Its output may contain anything, secrets
// included, so it is here and nowhere else.
func lastWords(d *corev1.ContainerStateTerminated) []string {
	all := []string{fmt.Sprintf("exit code %d, reason %q", d.ExitCode, plain(d.Reason, maxEvidence/4))}
	if out := lastLine(d.Message); out != "" {
		all = append(all, "last output: "+out)
	}
	return all
}
