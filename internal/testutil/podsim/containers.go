package podsim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// act is a behavior that a pod plays.
type act struct {
	Behavior
	since time.Time
	// before is what the containers were when the act began: their restarts go on from
	// there. It stays the same through the act, whatever is written meanwhile.
	before []corev1.ContainerStatus

	podIP, hostIP string
}

// containers returns what the containers of the pod are now, and how long that lasts;
// zero means for ever.
func (a *act) containers(pod *corev1.Pod, now time.Time) (init, main []corev1.ContainerStatus, next time.Duration) {
	target := a.target(pod)
	blocked := a.kind == hangs
	play := func(c *corev1.Container, isInit bool) (s corev1.ContainerStatus) {
		switch {
		case blocked:
			s = a.waiting(pod, c, startReason(pod), "")
		case c.Name == target:
			s, next = a.happens(pod, c, isInit, now)
		case isInit && !isSidecar(c):
			s = a.completed(pod, c)
		default:
			s = a.running(pod, c, true)
		}
		blocked = blocked || isInit && !initialized(c, &s)
		return s
	}
	for i := range pod.Spec.InitContainers {
		init = append(init, play(&pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		main = append(main, play(&pod.Spec.Containers[i], false))
	}
	if runsToCompletion(pod) {
		a.endTogether(pod, target, init, main)
	}
	return init, main, next
}

// endTogether lets the other containers of a pod that runs to completion end well when
// the one that the act is about has ended: the pod would never be over otherwise.
func (a *act) endTogether(pod *corev1.Pod, target string, init, main []corev1.ContainerStatus) {
	over := func(s corev1.ContainerStatus) bool { return s.Name == target && s.State.Terminated != nil }
	if !slices.ContainsFunc(main, over) {
		return
	}
	for i := range main {
		if main[i].Name != target {
			main[i] = a.completed(pod, &pod.Spec.Containers[i])
		}
	}
	for i := range init {
		if c := &pod.Spec.InitContainers[i]; isSidecar(c) {
			init[i] = a.completed(pod, c)
		}
	}
}

// target is the container that the act is about.
func (a *act) target(pod *corev1.Pod) string {
	if a.container != "" {
		return a.container
	}
	return pod.Spec.Containers[0].Name
}

// happens is the part of the target.
func (a *act) happens(pod *corev1.Pod, c *corev1.Container, isInit bool, now time.Time) (corev1.ContainerStatus, time.Duration) {
	elapsed := now.Sub(a.since)
	switch a.kind {
	case waits:
		return a.waiting(pod, c, a.reason, a.text), 0
	case pulls:
		text := parseImage(c.Image).fill(a.text)
		if elapsed < a.pause {
			return a.waiting(pod, c, reasonErrImagePull, text), a.pause - elapsed
		}
		text = fmt.Sprintf("Back-off pulling image %q: %s: %s", c.Image, reasonErrImagePull, text)
		return a.waiting(pod, c, reasonImagePullBackOff, text), 0
	case exits:
		return a.lives(pod, c, isInit, now)
	}
	switch {
	case a.never:
		return a.running(pod, c, false), 0
	case elapsed < a.after:
		return a.running(pod, c, false), a.after - elapsed
	case isInit && !isSidecar(c):
		return a.completed(pod, c), 0
	}
	return a.running(pod, c, true), 0
}

// running is a container that runs since the act began, or since before.
func (a *act) running(pod *corev1.Pod, c *corev1.Container, ready bool) corev1.ContainerStatus {
	p := a.past(c)
	s := started(pod, c, p.restarts)
	s.State.Running = &corev1.ContainerStateRunning{StartedAt: p.born}
	s.LastTerminationState.Terminated = p.last
	s.Started, s.Ready = new(true), ready
	return s
}

// completed is a container that has ended well, now or before.
func (a *act) completed(pod *corev1.Pod, c *corev1.Container) corev1.ContainerStatus {
	if i := slices.IndexFunc(a.before, named(c.Name)); i >= 0 && succeeded(&a.before[i]) {
		return a.before[i]
	}
	p := a.past(c)
	s := started(pod, c, p.restarts)
	s.State.Terminated = &corev1.ContainerStateTerminated{
		Reason: reasonCompleted, StartedAt: p.born, FinishedAt: seconds(a.since), ContainerID: s.ContainerID,
	}
	s.LastTerminationState.Terminated = p.last
	s.Ready = isInitOf(pod, c) && !isSidecar(c)
	return s
}

// waiting is a container that cannot be started, for the first time or again.
func (a *act) waiting(pod *corev1.Pod, c *corev1.Container, reason, text string) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, VolumeMounts: mounts(c)}
	if p := a.past(c); p.ran {
		// The status of the container that was there stays, as that of a dead one.
		s = started(pod, c, p.restarts-p.next)
		s.LastTerminationState.Terminated = p.last
		if p.next == 0 {
			s.LastTerminationState.Terminated = killed(s.ContainerID, p.born, seconds(a.since))
		}
	}
	s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: text}
	s.Started = new(false)
	return s
}

// lives is a container that exits, and is restarted if the restart policy says so:
//
//	since                    + cycle                  + 2 cycles      + restarts x cycle
//	| runs (after) | down (pause) | runs (after) | down (pause) | ... | runs | stays down
func (a *act) lives(pod *corev1.Pod, c *corev1.Container, isInit bool, now time.Time) (corev1.ContainerStatus, time.Duration) {
	p := a.past(c)
	again := restarted(pod, isInit, a.code)
	n, elapsed := a.life(again, now.Sub(a.since))
	s := started(pod, c, p.restarts+n)
	s.LastTerminationState.Terminated = p.last
	if n > 0 {
		s.LastTerminationState.Terminated = a.death(pod, c, p, n-1)
	}
	if elapsed < a.after {
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: a.birth(p, n)}
		s.Started = new(true)
		s.Ready = !isInit && c.ReadinessProbe == nil // a probe would not have answered yet
		return s, a.after - elapsed
	}
	died := a.death(pod, c, p, n)
	switch {
	case !again:
		s.State.Terminated = died
		s.Ready = isInit && a.code == 0
		return s, 0
	case n == 0 && a.restarts > 0: // the first restart is immediate: no back-off yet
		s.State.Terminated = died
	default:
		s.LastTerminationState.Terminated = died
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reasonCrashLoopBackOff, Message: backOffText(pod, c, s.RestartCount)}
	}
	if n == a.restarts {
		return s, 0
	}
	return s, a.cycle() - elapsed
}
