package logs

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one run of a container of a pod.
type container struct {
	pod       *corev1.Pod
	component string
	name      string
	// id is the container ID of the run; empty before the first run.
	id string
	// waitReason is why it is not running.
	waitReason string
	running    bool
	restarts   int32
}

// runKey identifies a run.
type runKey struct{ pod, container, run string }

func (c container) key() runKey { return runKey{string(c.pod.UID), c.name, c.id} }

// String returns the prefix of lines and messages.
func (c container) String() string {
	if c.component == "" {
		return c.pod.Name + " " + c.name
	}
	return c.component + "/" + podSuffix(c.pod) + " " + c.name
}

// podSuffix returns the name of a pod without the name of its workload.
func podSuffix(pod *corev1.Pod) string {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return pod.Name
	}
	child := ref.Name
	if hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		child = strings.TrimSuffix(child, "-"+hash)
	}
	return strings.TrimPrefix(pod.Name, child+"-")
}

// containersOf returns the containers of a pod in the order in which they start. An empty name selects
// all.
func containersOf(pod *corev1.Pod, component, name string) []container {
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	states := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
	var out []container
	for _, n := range names {
		if name != "" && n != name {
			continue
		}
		c := container{pod: pod, component: component, name: n, waitReason: podWaitReason(pod)}
		for i := range states {
			if s := &states[i]; s.Name == n {
				c.id, c.running, c.restarts = s.ContainerID, s.State.Running != nil, s.RestartCount
				if w := s.State.Waiting; w != nil && w.Reason != "" {
					c.waitReason = w.Reason
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// podWaitReason returns why no container of a pod is running yet.
func podWaitReason(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason
		}
	}
	return "not started"
}
