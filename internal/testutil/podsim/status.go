package podsim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// runningPodStatus returns the status of a pod on the simulated node: a function of the pod, its behavior and the time.
// It lasts for next, or forever if next is zero.
func runningPodStatus(pod *corev1.Pod, a *activeBehavior, now time.Time) (s corev1.PodStatus, next time.Duration) {
	s = *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.InitContainerStatuses, s.ContainerStatuses, next = a.containerStatuses(pod, now)
	s.Phase = phaseOf(pod, s.InitContainerStatuses, s.ContainerStatuses)
	if s.StartTime == nil {
		s.StartTime = new(truncateToSecond(now))
	}
	s.HostIP, s.HostIPs = a.hostIP, []corev1.HostIP{{IP: a.hostIP}}
	if a.kind != kindHangs {
		s.PodIP, s.PodIPs = a.podIP, []corev1.PodIP{{IP: a.podIP}}
	}
	sandbox := a.kind != kindHangs && !isTerminal(s.Phase)
	s.Conditions = conditionsOf(pod, &s, sandbox, now)
	return s, next
}

// finalPodStatus returns the last status of a deleted pod: the kubelet stops the containers and reports how they
// terminated.
func finalPodStatus(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	s.ObservedGeneration = pod.Generation
	s.Phase = corev1.PodSucceeded
	for i := range s.ContainerStatuses {
		stopContainer(&s.ContainerStatuses[i], now)
		if !succeeded(&s.ContainerStatuses[i]) {
			s.Phase = corev1.PodFailed
		}
	}
	for i := range s.InitContainerStatuses {
		if init := &s.InitContainerStatuses[i]; init.State.Terminated == nil {
			stopContainer(init, now)
		}
	}
	if len(s.ContainerStatuses) == 0 {
		s.Phase = corev1.PodFailed
	}
	s.Conditions = conditionsOf(pod, &s, false, now)
	return s
}

// stopContainer terminates a container: a running one exits, a waiting one keeps its last termination, one that never
// ran is reported as lost.
func stopContainer(s *corev1.ContainerStatus, now time.Time) {
	s.Ready, s.Started = false, new(false)
	switch {
	case s.State.Terminated != nil:
	case s.State.Running != nil:
		s.State.Terminated = &corev1.ContainerStateTerminated{
			Reason: reasonCompleted, StartedAt: s.State.Running.StartedAt, FinishedAt: truncateToSecond(now), ContainerID: s.ContainerID,
		}
	case s.LastTerminationState.Terminated != nil:
		s.State.Terminated, s.LastTerminationState.Terminated = s.LastTerminationState.Terminated, nil
	default:
		s.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: reasonStatusUnknown, Message: "The container could not be located when the pod was terminated",
		}
	}
	s.State.Running, s.State.Waiting = nil, nil
}

// unscheduledStatus returns the status that the scheduler writes if no node fits.
func unscheduledStatus(pod *corev1.Pod, message string, now time.Time) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	c := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}
	setTransitionTime(pod, &c, now)
	if i := slices.IndexFunc(s.Conditions, hasType(c.Type)); i >= 0 {
		s.Conditions[i] = c
		return s
	}
	s.Conditions = append(s.Conditions, c)
	return s
}
