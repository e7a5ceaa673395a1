package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// initGrace is how long an init container may run before it is worth a word.
const initGrace = time.Minute

// unstarted is a container that the runtime cannot start at all.
func (e *examiner) unstarted(c container, reason, message, path string) {
	why := "the node cannot make it as it is asked to"
	fix := "Look at what the node said, and correct the application: " + lookUp(c.pod)
	said := strings.ToLower(plain(message, maxText))
	const correct = "Correct spec.command and spec.args of the application, or the entrypoint of its image."
	switch {
	case strings.Contains(said, "executable file not found") || strings.Contains(said, "no such file"):
		why, fix = "its command is not in the image", correct
	case strings.Contains(said, "permission denied"):
		why, fix = "its command may not be run", correct
	case reason == reasonStartError || reason == reasonCannotRun || reason == reasonRunError:
		why, fix = "its command failed before it ran", correct
	}
	e.add(c.pod, c.own(), Cause{
		Code: StartError, Path: path, Value: reason, Since: c.since(),
		Sentence: fmt.Sprintf("%s cannot be started: %s", c.title(), why), Fix: fix,
		Evidence: append(c.endings(nil), evidence(plain(message, maxEvidence))...),
	})
}

// hook is a container whose postStart hook fails.
func (e *examiner) hook(c container, w *corev1.ContainerStateWaiting) {
	e.add(c.pod, c.own(), Cause{
		Code: PostStartHook, Path: c.statusPath + ".state.waiting", Value: w.Reason, Since: c.since(),
		Sentence: fmt.Sprintf("%s is ended each time because its postStart hook fails", c.title()),
		Fix:      "Correct the hook in spec.podTemplateOverlay of the application, or what it calls: " + lookUp(c.pod),
		Evidence: append(c.endings(nil), evidence(plain(w.Message, maxEvidence))...),
	})
}

// initializing is an init container that takes its time. That may well be right: it is said,
// not blamed.
func (e *examiner) initializing(c container) {
	running := c.status.State.Running
	if running == nil {
		return
	}
	if end := running.StartedAt.Add(initGrace); e.now.Before(end) {
		e.look(end)
		return
	}
	e.add(c.pod, c.own(), Cause{
		Code: InitBlocked, Path: c.statusPath + ".state.running", Value: c.status.Name, Since: running.StartedAt.Time,
		Sentence: fmt.Sprintf("%s is still running, and the containers after it wait for its end", c.title()),
		Fix:      fmt.Sprintf("See what it does: kubectl logs -n %s %s -c %s", c.pod.Namespace, c.pod.Name, c.status.Name),
	})
}

// gated is a pod that waits for a condition which somebody else sets.
func (e *examiner) gated(pod *corev1.Pod) {
	c := condition(pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" {
		return
	}
	began := since(pod, corev1.PodReady)
	if end := began.Add(minSilence); e.now.Before(end) {
		e.look(end)
		return
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if g := condition(pod, gate.ConditionType); g != nil && g.Status == corev1.ConditionTrue {
			continue
		}
		kind := short(string(gate.ConditionType))
		e.add(pod, workload(pod)+kind, Cause{
			Code: ReadinessGate, Path: "spec.readinessGates", Value: kind, Since: began,
			Sentence: fmt.Sprintf("All containers of pod %s are ready, but it waits for condition %s, which somebody else sets", pod.Name, kind),
			Fix:      "Look at the controller that sets this condition.",
		})
	}
}
