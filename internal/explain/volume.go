package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Ref is a ConfigMap or Secret that pods refer to.
type Ref struct{ Kind, Name string }

// Unmounted explains why pods do not start, if volumes of theirs show what does not exist.
// A pod does not tell that itself: its containers are created, it says, for as long as it
// waits.
func Unmounted(pods []*corev1.Pod, missing []Ref) []Cause {
	var e examiner
	live := 0
	for _, pod := range pods {
		if pod == nil || isOver(pod) {
			continue
		}
		live++
		if !isBeingCreated(pod) {
			continue
		}
		for _, ref := range missing {
			e.add(pod, ref.Name, Cause{
				Code: codeOf(ref.Kind), Path: "spec.volumes", Value: ref.Name, Since: since(pod, corev1.ContainersReady, corev1.PodReady),
				Sentence: fmt.Sprintf("Pod %s cannot start: a volume shows %s %q, which does not exist in namespace %s", pod.Name, ref.Kind, short(ref.Name), pod.Namespace),
				Fix:      fmt.Sprintf("Create %s %q in namespace %s, or correct spec.volumes of the application.", ref.Kind, ref.Name, pod.Namespace),
			})
		}
	}
	return merge(e.findings, live)
}

// isBeingCreated says whether a pod is on a node and nothing of it was started yet.
func isBeingCreated(pod *corev1.Pod) bool {
	placed := condition(pod, corev1.PodScheduled)
	if isReady(pod) || placed == nil || placed.Status != corev1.ConditionTrue {
		return false
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w == nil || w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return false
			}
		}
	}
	return true
}
