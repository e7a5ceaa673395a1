package explain

import (
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Graces of silence: a node may take this long to set up a pod before somebody asks why.
const (
	creationGrace = 30 * time.Second
	// setupGrace lets a node try again: mounts and networks fail once in every busy rollout.
	setupGrace = 15 * time.Second
)

// Reasons of events of kubelet and of the attach/detach controller.
const (
	reasonFailedMount     = "FailedMount"
	reasonFailedMap       = "FailedMapVolume"
	reasonFailedAttach    = "FailedAttachVolume"
	reasonFailedSandbox   = "FailedCreatePodSandBox"
	reasonNetworkNotReady = "NetworkNotReady"
)

// checkCreating is a pod on a node of which nothing was started yet. It does not tell itself
// what it waits for: its containers are created, it says, for as long as that takes.
func (e *explainer) checkCreating(pod *corev1.Pod) {
	if !isCreating(pod) {
		return
	}
	began := falseSince(pod, corev1.ContainersReady, corev1.PodReady)
	for _, ref := range e.snapshot.MissingRefs {
		e.addPodCause(pod, ref.Name, missingVolumeSourceCause(pod, ref, began))
	}
	if len(e.snapshot.MissingRefs) > 0 || e.checkClaims(pod) || e.checkSetupEvents(pod, began) {
		return
	}
	if end := began.Add(creationGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.needEvents(podRef(pod))
}

// missingVolumeSourceCause is a volume that shows what does not exist.
func missingVolumeSourceCause(pod *corev1.Pod, ref Ref, began time.Time) Cause {
	return Cause{
		Code: missingRefCode(ref.Kind), Path: "spec.volumes", Value: ref.Name, Since: began,
		Message: fmt.Sprintf("Pod %s cannot start: a volume shows %s %q, which does not exist in namespace %s", pod.Name, ref.Kind, abbreviate(ref.Name), pod.Namespace),
		Fix:     fmt.Sprintf("Create %s %q in namespace %s, or correct spec.volumes of the application.", ref.Kind, ref.Name, pod.Namespace),
	}
}

var (
	missingVolumeKeyPattern = regexp.MustCompile(`references non-existent (secret|config) key: ([-._a-zA-Z0-9]{1,253})`)
	volumeNamePattern       = regexp.MustCompile(`(?:for volume "|unmounted volumes=\[)([-a-z0-9.]{1,253})`)
)

// checkSetupEvents is what the node says about setting up a pod.
func (e *explainer) checkSetupEvents(pod *corev1.Pod, began time.Time) bool {
	o := podRef(pod)
	if ev, ok := e.latestEvent(o, []string{reasonFailedMount}, "not found"); ok {
		if found := missingRefPattern.FindStringSubmatch(ev.Message); found != nil {
			c := missingVolumeSourceCause(pod, Ref{kindFromKubelet(found[1]), found[2]}, began)
			c.Evidence = []string{ev.String()}
			e.addPodCause(pod, found[2], c)
			return true
		}
	}
	if ev, ok := e.latestEvent(o, []string{reasonFailedMount}, "non-existent"); ok {
		if found := missingVolumeKeyPattern.FindStringSubmatch(ev.Message); found != nil {
			e.addPodCause(pod, found[2], missingVolumeKeyCause(pod, kindFromKubelet(found[1]), found[2], ev, began))
			return true
		}
	}
	if end := began.Add(setupGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return false
	}
	if ev, ok := e.latestEvent(o, []string{reasonFailedAttach}); ok {
		e.addPodCause(pod, "attach "+pod.Name, Cause{
			Code: AttachFailed, Path: "spec.volumes", Value: volumeNameFrom(ev), Since: began,
			Message:  fmt.Sprintf("Volume %s of pod %s cannot be attached to node %s", volumeNameFrom(ev), pod.Name, abbreviate(pod.Spec.NodeName)),
			Fix:      "If another node still has the volume, end the pod there or remove that node; else look at the driver of the volume: " + describePodCommand(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	if ev, ok := e.latestEvent(o, []string{reasonFailedMount, reasonFailedMap}); ok {
		e.addPodCause(pod, volumeNameFrom(ev), Cause{
			Code: MountFailed, Path: "spec.volumes", Value: volumeNameFrom(ev), Since: began,
			Message:  fmt.Sprintf("Volume %s of pod %s cannot be mounted on node %s", volumeNameFrom(ev), pod.Name, abbreviate(pod.Spec.NodeName)),
			Fix:      "Look at what the node said about the volume: " + describePodCommand(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	if ev, ok := e.latestEvent(o, []string{reasonFailedSandbox, reasonNetworkNotReady}); ok {
		e.addPodCause(pod, pod.Spec.NodeName, Cause{
			Code: SandboxFailed, Path: "spec.nodeName", Value: pod.Spec.NodeName, Since: began,
			Message:  fmt.Sprintf("Node %s cannot set up pod %s and its network", abbreviate(pod.Spec.NodeName), pod.Name),
			Fix:      "Look at the network plugin of the node: " + describePodCommand(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	return false
}

// volumeNameFrom is the name of the volume that an event is about.
func volumeNameFrom(ev Event) string {
	if found := volumeNamePattern.FindStringSubmatch(ev.Message); found != nil {
		return abbreviate(found[1])
	}
	return "(not named)"
}

// missingVolumeKeyCause is a volume that shows a key which is not there. The event does not say of which
// object; the pod does, if one volume alone has such a key.
func missingVolumeKeyCause(pod *corev1.Pod, kind, key string, ev Event, began time.Time) Cause {
	source := "a " + kind
	if holder := volumeSourceWithKey(pod, kind, key); holder != "" {
		source = fmt.Sprintf("%s %q", kind, abbreviate(holder))
	}
	return Cause{
		Code: MissingKey, Path: "spec.volumes", Value: key, Since: began,
		Message:  fmt.Sprintf("Pod %s cannot start: a volume shows key %q of %s in namespace %s, which has no such key", pod.Name, abbreviate(key), source, pod.Namespace),
		Fix:      fmt.Sprintf("Add key %q to %s in namespace %s, or correct spec.volumes of the application.", key, source, pod.Namespace),
		Evidence: []string{ev.String()},
	}
}

func volumeSourceWithKey(pod *corev1.Pod, kind, key string) string {
	found := ""
	note := func(name string, items []corev1.KeyToPath) {
		for _, i := range items {
			if i.Key == key && found == "" {
				found = name
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case kind == "Secret" && v.Secret != nil:
			note(v.Secret.SecretName, v.Secret.Items)
		case kind == "ConfigMap" && v.ConfigMap != nil:
			note(v.ConfigMap.Name, v.ConfigMap.Items)
		}
	}
	return found
}

// isCreating says whether a pod is on a node and nothing of it was started yet.
func isCreating(pod *corev1.Pod) bool {
	scheduled := podCondition(pod, corev1.PodScheduled)
	if isReady(pod) || scheduled == nil || scheduled.Status != corev1.ConditionTrue {
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
