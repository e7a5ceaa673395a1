package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// initGrace is how long an init container can run before it is reported.
const initGrace = time.Minute

// addStartError reports a container that the runtime cannot start.
func (e *explainer) addStartError(c container, reason, message, path string) {
	detail := "the container runtime cannot create it"
	fix := "Check the events of the pod and correct the application; for details: " + describePodCommand(c.pod)
	lowerMessage := strings.ToLower(plaintext.Line(message, maxText))
	const commandFix = "Correct spec.command and spec.args of the application, or the entrypoint of its image."
	switch {
	case strings.Contains(lowerMessage, "executable file not found") || strings.Contains(lowerMessage, "no such file"):
		detail, fix = "its command is not in the image", commandFix
	case strings.Contains(lowerMessage, "permission denied"):
		detail, fix = "no permission to execute its command", commandFix
	case reason == reasonStartError || reason == reasonCannotRun || reason == reasonRunError:
		detail, fix = "the container runtime cannot start its command", commandFix
	}
	e.addPodCause(c.pod, e.causeKey(c), Cause{
		Code: StartError, Path: path, Value: reason, Since: c.unreadySince(),
		Message: fmt.Sprintf("%s cannot be started: %s", c.title(), detail), Fix: fix,
		Evidence: append(c.crashEvidence(nil), evidence(plaintext.Line(message, maxEvidence))...),
	})
}

// addPostStartHookFailure reports a container whose postStart hook fails.
func (e *explainer) addPostStartHookFailure(c container, w *corev1.ContainerStateWaiting) {
	e.addPodCause(c.pod, e.causeKey(c), Cause{
		Code: PostStartHook, Path: c.statusPath + ".state.waiting", Value: w.Reason, Since: c.unreadySince(),
		Message: fmt.Sprintf("%s is killed after each start because its postStart hook fails", c.title()),
		Fix: "Correct the postStart hook in spec.podTemplateOverlay of the application, or the command or URL that the hook calls; for details: " +
			describePodCommand(c.pod),
		Evidence: append(c.crashEvidence(nil), evidence(plaintext.Line(w.Message, maxEvidence))...),
	})
}

// addInitBlocked reports a long-running init container. This can be intended, so it is only a notice.
func (e *explainer) addInitBlocked(c container) {
	running := c.status.State.Running
	if running == nil {
		return
	}
	if end := running.StartedAt.Add(initGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.addPodCause(c.pod, e.causeKey(c), Cause{
		Code: InitBlocked, Path: c.statusPath + ".state.running", Value: c.status.Name, Since: running.StartedAt.Time,
		Message: fmt.Sprintf("%s is still running; the other containers of the pod start after it completes", c.title()),
		Fix:     fmt.Sprintf("Check its logs: kubectl logs -n %s %s -c %s", c.pod.Namespace, c.pod.Name, c.status.Name),
	})
}

// addReadinessGates reports readiness gates that are not true.
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
		e.addPodCause(pod, e.workloadLabel(pod)+kind, Cause{
			Code: ReadinessGate, Path: "spec.readinessGates", Value: kind, Since: began,
			Message: fmt.Sprintf("All containers of Pod %s are ready, but readiness gate %s is not true", pod.Name, kind),
			Fix:     "Check the controller that sets this pod condition.",
		})
	}
}
