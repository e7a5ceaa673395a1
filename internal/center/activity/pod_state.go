package activity

import corev1 "k8s.io/api/core/v1"

// PodStateOf returns the state of a pod.
func PodStateOf(pod *corev1.Pod) *PodState {
	last := &PodState{Phase: string(pod.Status.Phase), Reason: pod.Status.Reason, Node: pod.Spec.NodeName}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			c := ContainerState{Name: s.Name, State: "Waiting", Restarts: s.RestartCount}
			switch {
			case s.State.Running != nil:
				c.State = "Running"
			case s.State.Terminated != nil:
				c.State, c.Reason, c.ExitCode = "Terminated", s.State.Terminated.Reason, new(s.State.Terminated.ExitCode)
			case s.State.Waiting != nil:
				c.Reason = s.State.Waiting.Reason
			}
			last.Containers = append(last.Containers, c)
		}
	}
	return last
}
