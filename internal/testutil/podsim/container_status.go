package podsim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// activeBehavior is the current behavior of a pod.
type activeBehavior struct {
	Behavior
	since time.Time
	// previous is the status of the containers at the start of the behavior, on which restart counts are based. It does
	// not change while the behavior lasts.
	previous []corev1.ContainerStatus

	podIP, hostIP string
}

// containerStatuses returns the status of the containers and how long it lasts; zero means forever.
func (a *activeBehavior) containerStatuses(pod *corev1.Pod, now time.Time) (init, main []corev1.ContainerStatus, next time.Duration) {
	target := a.target(pod)
	blocked := a.kind == kindHangs
	statusOfContainer := func(c *corev1.Container, isInit bool) (s corev1.ContainerStatus) {
		switch {
		case blocked:
			s = a.waitingStatus(pod, c, initialWaitingReason(pod), "")
		case c.Name == target:
			s, next = a.targetStatus(pod, c, isInit, now)
		case isInit && !isSidecar(c):
			s = a.completedStatus(pod, c)
		default:
			s = a.runningStatus(pod, c, true)
		}
		blocked = blocked || isInit && !initialized(c, &s)
		return s
	}
	for i := range pod.Spec.InitContainers {
		init = append(init, statusOfContainer(&pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		main = append(main, statusOfContainer(&pod.Spec.Containers[i], false))
	}
	if runsToCompletion(pod) {
		a.completeOtherContainers(pod, target, init, main)
	}
	return init, main, next
}

// completeOtherContainers completes the other containers of a pod that runs to completion once the target has exited, so
// that the pod completes.
func (a *activeBehavior) completeOtherContainers(pod *corev1.Pod, target string, init, main []corev1.ContainerStatus) {
	isTerminatedTarget := func(s corev1.ContainerStatus) bool { return s.Name == target && s.State.Terminated != nil }
	if !slices.ContainsFunc(main, isTerminatedTarget) {
		return
	}
	for i := range main {
		if main[i].Name != target {
			main[i] = a.completedStatus(pod, &pod.Spec.Containers[i])
		}
	}
	for i := range init {
		if c := &pod.Spec.InitContainers[i]; isSidecar(c) {
			init[i] = a.completedStatus(pod, c)
		}
	}
}

// target returns the container with the behavior.
func (a *activeBehavior) target(pod *corev1.Pod) string {
	if a.container != "" {
		return a.container
	}
	return pod.Spec.Containers[0].Name
}

// targetStatus returns the status of the target.
func (a *activeBehavior) targetStatus(pod *corev1.Pod, c *corev1.Container, isInit bool, now time.Time) (corev1.ContainerStatus, time.Duration) {
	elapsed := now.Sub(a.since)
	switch a.kind {
	case kindCannotStart:
		return a.waitingStatus(pod, c, a.reason, a.message), 0
	case kindImagePullFails:
		message := parseImage(c.Image).expand(a.message)
		if elapsed < a.backoff {
			return a.waitingStatus(pod, c, reasonErrImagePull, message), a.backoff - elapsed
		}
		message = fmt.Sprintf("Back-off pulling image %q: %s: %s", c.Image, reasonErrImagePull, message)
		return a.waitingStatus(pod, c, reasonImagePullBackOff, message), 0
	case kindExits:
		return a.exitingStatus(pod, c, isInit, now)
	}
	switch {
	case a.neverReady:
		return a.runningStatus(pod, c, false), 0
	case elapsed < a.after:
		return a.runningStatus(pod, c, false), a.after - elapsed
	case isInit && !isSidecar(c):
		return a.completedStatus(pod, c), 0
	}
	return a.runningStatus(pod, c, true), 0
}

// runningStatus returns the status of a container that is running since the start of the behavior or longer.
func (a *activeBehavior) runningStatus(pod *corev1.Pod, c *corev1.Container, ready bool) corev1.ContainerStatus {
	p := a.history(c)
	s := startedStatus(pod, c, p.restarts)
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: p.startedAt}
	s.LastTerminationState.Terminated = p.lastTermination
	s.Started, s.Ready = new(true), ready
	return s
}

// completedStatus returns the status of a container that completed now or earlier.
func (a *activeBehavior) completedStatus(pod *corev1.Pod, c *corev1.Container) corev1.ContainerStatus {
	if i := slices.IndexFunc(a.previous, hasName(c.Name)); i >= 0 && succeeded(&a.previous[i]) {
		return a.previous[i]
	}
	p := a.history(c)
	s := startedStatus(pod, c, p.restarts)
	s.State.Terminated = &corev1.ContainerStateTerminated{
		Reason: reasonCompleted, StartedAt: p.startedAt, FinishedAt: truncateToSecond(a.since), ContainerID: s.ContainerID,
	}
	s.LastTerminationState.Terminated = p.lastTermination
	s.Ready = isInitOf(pod, c) && !isSidecar(c)
	return s
}

// waitingStatus returns the status of a container that cannot be started or restarted.
func (a *activeBehavior) waitingStatus(pod *corev1.Pod, c *corev1.Container, reason, message string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, VolumeMounts: volumeMountStatuses(c)}
	if p := a.history(c); p.wasStarted {
		// Keep the status of the previous container.
		s = startedStatus(pod, c, p.restarts-p.newRestarts)
		s.LastTerminationState.Terminated = p.lastTermination
		if p.newRestarts == 0 {
			s.LastTerminationState.Terminated = killedState(s.ContainerID, p.startedAt, truncateToSecond(a.since))
		}
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	s.Started = new(false)
	return s
}

// exitingStatus returns the status of a container that exits and is restarted according to the restart policy:
//
//	since                    + cycle                  + 2 cycles      + restarts x cycle
//	| runs (after) | down (pause) | runs (after) | down (pause) | ... | runs | stays down
func (a *activeBehavior) exitingStatus(pod *corev1.Pod, c *corev1.Container, isInit bool, now time.Time) (corev1.ContainerStatus, time.Duration) {
	p := a.history(c)
	restart := shouldRestart(pod, isInit, a.exitCode)
	n, elapsed := a.restartsSoFar(restart, now.Sub(a.since))
	s := startedStatus(pod, c, p.restarts+n)
	s.LastTerminationState.Terminated = p.lastTermination
	if n > 0 {
		s.LastTerminationState.Terminated = a.termination(pod, c, p, n-1)
	}
	if elapsed < a.after {
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: a.startTime(p, n)}
		s.Started = new(true)
		s.Ready = !isInit && c.ReadinessProbe == nil // with a readiness probe it would not be ready yet
		return s, a.after - elapsed
	}
	terminated := a.termination(pod, c, p, n)
	switch {
	case !restart:
		s.State.Terminated = terminated
		s.Ready = isInit && a.exitCode == 0
		return s, 0
	case n == 0 && a.restarts > 0: // the first restart has no backoff
		s.State.Terminated = terminated
	default:
		s.LastTerminationState.Terminated = terminated
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCrashLoopBackOff, Message: backOffMessage(pod, c, s.RestartCount)}
	}
	if n == a.restarts {
		return s, 0
	}
	return s, a.restartInterval() - elapsed
}
