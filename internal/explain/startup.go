package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// initGrace is how long an init container may run before it is worth a word.
const initGrace = time.Minute

// addStartError is a container that the runtime cannot start at all.
func (e *explainer) addStartError(c container, reason, message, path string) {
	detail := "the node cannot make it as it is asked to"
	fix := "Look at what the node said, and correct the application: " + describePodCommand(c.pod)
	lowerMessage := strings.ToLower(sanitize(message, maxText))
	const commandFix = "Correct spec.command and spec.args of the application, or the entrypoint of its image."
	switch {
	case strings.Contains(lowerMessage, "executable file not found") || strings.Contains(lowerMessage, "no such file"):
		detail, fix = "its command is not in the image", commandFix
	case strings.Contains(lowerMessage, "permission denied"):
		detail, fix = "its command may not be run", commandFix
	case reason == reasonStartError || reason == reasonCannotRun || reason == reasonRunError:
		detail, fix = "its command failed before it ran", commandFix
	}
	e.addPodCause(c.pod, c.causeKey(), Cause{
		Code: StartError, Path: path, Value: reason, Since: c.unreadySince(),
		Message: fmt.Sprintf("%s cannot be started: %s", c.title(), detail), Fix: fix,
		Evidence: append(c.crashEvidence(nil), evidence(sanitize(message, maxEvidence))...),
	})
}

// addPostStartHookFailure is a container whose postStart hook fails.
func (e *explainer) addPostStartHookFailure(c container, w *corev1.ContainerStateWaiting) {
	e.addPodCause(c.pod, c.causeKey(), Cause{
		Code: PostStartHook, Path: c.statusPath + ".state.waiting", Value: w.Reason, Since: c.unreadySince(),
		Message:  fmt.Sprintf("%s is ended each time because its postStart hook fails", c.title()),
		Fix:      "Correct the hook in spec.podTemplateOverlay of the application, or what it calls: " + describePodCommand(c.pod),
		Evidence: append(c.crashEvidence(nil), evidence(sanitize(w.Message, maxEvidence))...),
	})
}

// addInitBlocked is an init container that takes its time. That may well be right: it is said,
// not blamed.
func (e *explainer) addInitBlocked(c container) {
	running := c.status.State.Running
	if running == nil {
		return
	}
	if end := running.StartedAt.Add(initGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.addPodCause(c.pod, c.causeKey(), Cause{
		Code: InitBlocked, Path: c.statusPath + ".state.running", Value: c.status.Name, Since: running.StartedAt.Time,
		Message: fmt.Sprintf("%s is still running, and the containers after it wait for its end", c.title()),
		Fix:     fmt.Sprintf("See what it does: kubectl logs -n %s %s -c %s", c.pod.Namespace, c.pod.Name, c.status.Name),
	})
}

// addReadinessGates is a pod that waits for a condition which somebody else sets.
func (e *explainer) addReadinessGates(pod *corev1.Pod) {
	c := podCondition(pod, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != "ReadinessGatesNotReady" {
		return
	}
	began := falseSince(pod, corev1.PodReady)
	if end := began.Add(minGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	for _, gate := range pod.Spec.ReadinessGates {
		if g := podCondition(pod, gate.ConditionType); g != nil && g.Status == corev1.ConditionTrue {
			continue
		}
		kind := abbreviate(string(gate.ConditionType))
		e.addPodCause(pod, workloadLabel(pod)+kind, Cause{
			Code: ReadinessGate, Path: "spec.readinessGates", Value: kind, Since: began,
			Message: fmt.Sprintf("All containers of pod %s are ready, but it waits for condition %s, which somebody else sets", pod.Name, kind),
			Fix:     "Look at the controller that sets this condition.",
		})
	}
}
