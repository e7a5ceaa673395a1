package podsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Condition reasons of the kubelet.
const (
	reasonNotReady       = "ContainersNotReady"
	reasonNotInitialized = "ContainersNotInitialized"
	reasonGatesNotReady  = "ReadinessGatesNotReady"
	reasonPodCompleted   = "PodCompleted"
	reasonPodFailed      = "PodFailed"
)

// phaseOf derives the phase from the containers by the kubelet's rules.
func phaseOf(pod *corev1.Pod, init, main []corev1.ContainerStatus) corev1.PodPhase {
	for i := range init {
		c, s := &pod.Spec.InitContainers[i], &init[i]
		if d := lastTermination(s); d != nil && d.ExitCode != 0 && !isSidecar(c) && !shouldRestart(pod, true, d.ExitCode) {
			return corev1.PodFailed
		}
	}
	for i := range init {
		// A failed container that is restarted does not delay the phase.
		if d := lastTermination(&init[i]); !initialized(&pod.Spec.InitContainers[i], &init[i]) && (d == nil || init[i].State.Running != nil) {
			return corev1.PodPending
		}
	}
	var running, terminated, finished, exitedZero int
	for i := range main {
		s := &main[i]
		switch d := lastTermination(s); {
		case s.State.Running != nil:
			running++
		case d == nil:
			return corev1.PodPending
		default:
			terminated++
			if !shouldRestart(pod, false, d.ExitCode) {
				finished++
			}
			if d.ExitCode == 0 {
				exitedZero++
			}
		}
	}
	switch {
	case running > 0 || finished < terminated:
		return corev1.PodRunning
	case exitedZero == terminated:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// lastTermination returns how a container that is not running terminated: its current or its previous state.
func lastTermination(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

func isTerminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// conditionsOf returns all conditions of a pod on the simulated node, in the kubelet's order and after the conditions of
// other controllers.
func conditionsOf(pod *corev1.Pod, s *corev1.PodStatus, sandbox bool, now time.Time) []corev1.PodCondition {
	ready := containersReady(pod, s)
	kubeletConditions := []corev1.PodCondition{
		{Type: corev1.PodReadyToStartContainers, Status: conditionStatus(sandbox)},
		podInitialized(pod, s),
		podReady(pod, ready),
		ready,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	for i := range kubeletConditions {
		setTransitionTime(pod, &kubeletConditions[i], now)
	}
	isKubeletCondition := func(c corev1.PodCondition) bool { return slices.ContainsFunc(kubeletConditions, hasType(c.Type)) }
	return append(slices.DeleteFunc(slices.Clone(pod.Status.Conditions), isKubeletCondition), kubeletConditions...)
}

// setTransitionTime sets the observed generation and the transition time of a condition.
func setTransitionTime(pod *corev1.Pod, c *corev1.PodCondition, now time.Time) {
	c.ObservedGeneration = pod.Generation
	c.LastTransitionTime = truncateToSecond(now)
	if i := slices.IndexFunc(pod.Status.Conditions, hasType(c.Type)); i >= 0 && pod.Status.Conditions[i].Status == c.Status {
		c.LastTransitionTime = pod.Status.Conditions[i].LastTransitionTime
	}
}

func podInitialized(pod *corev1.Pod, s *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if s.Phase == corev1.PodSucceeded {
		c.Reason = reasonPodCompleted
		return c
	}
	if slices.ContainsFunc(s.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil || lastTermination(&s) != nil }) {
		return c
	}
	var incomplete []string
	for i := range pod.Spec.InitContainers {
		init := &pod.Spec.InitContainers[i]
		if j := slices.IndexFunc(s.InitContainerStatuses, hasName(init.Name)); j < 0 || !initialized(init, &s.InitContainerStatuses[j]) {
			incomplete = append(incomplete, init.Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, reasonNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func containersReady(pod *corev1.Pod, s *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	switch s.Phase {
	case corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
		return c
	case corev1.PodFailed:
		c.Reason = reasonPodFailed
		return c
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		if isSidecar(&pod.Spec.InitContainers[i]) && !s.InitContainerStatuses[i].Ready {
			unready = append(unready, s.InitContainerStatuses[i].Name)
		}
	}
	for i := range s.ContainerStatuses {
		if !s.ContainerStatuses[i].Ready {
			unready = append(unready, s.ContainerStatuses[i].Name)
		}
	}
	if len(unready) > 0 {
		c.Reason, c.Message = reasonNotReady, fmt.Sprintf("containers with unready status: %s", unready)
		return c
	}
	c.Status = corev1.ConditionTrue
	return c
}

// podReady is equal to ContainersReady unless a readiness gate is false.
func podReady(pod *corev1.Pod, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if c.Status != corev1.ConditionTrue {
		return c
	}
	var notReady []string
	for _, gate := range pod.Spec.ReadinessGates {
		i := slices.IndexFunc(pod.Status.Conditions, hasType(gate.ConditionType))
		switch {
		case i < 0:
			notReady = append(notReady, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case pod.Status.Conditions[i].Status != corev1.ConditionTrue:
			notReady = append(notReady, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v",
				gate.ConditionType, pod.Status.Conditions[i].Status))
		}
	}
	if len(notReady) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, reasonGatesNotReady, strings.Join(notReady, ", ")
	}
	return c
}

func hasType(t corev1.PodConditionType) func(corev1.PodCondition) bool {
	return func(c corev1.PodCondition) bool { return c.Type == t }
}

func conditionStatus(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}
