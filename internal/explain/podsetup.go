package explain

import (
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Grace periods for a node to set up a pod before its events are requested or reported.
const (
	creationGrace = 30 * time.Second
	// setupGrace gives a node time to retry: mounts and networks often fail once during a rollout.
	setupGrace = 15 * time.Second
)

// Event reasons of the kubelet and of the attach/detach controller.
const (
	reasonFailedMount     = "FailedMount"
	reasonFailedMap       = "FailedMapVolume"
	reasonFailedAttach    = "FailedAttachVolume"
	reasonFailedSandbox   = "FailedCreatePodSandBox"
	reasonNetworkNotReady = "NetworkNotReady"
)

// checkCreating checks a scheduled pod without started containers. Its status only says
// ContainerCreating, so the cause is in other objects or in its events.
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

// missingVolumeSourceCause is a volume that refers to a missing ConfigMap or Secret.
func missingVolumeSourceCause(pod *corev1.Pod, ref Ref, began time.Time) Cause {
	return Cause{
		Code: missingRefCode(ref.Kind), Path: "spec.volumes", Value: ref.Name, Since: began,
		Message: fmt.Sprintf("Pod %s cannot start: a volume refers to %s %q, which does not exist in namespace %s", pod.Name, ref.Kind,
			abbreviate(ref.Name), pod.Namespace),
		Fix: fmt.Sprintf("Create %s %q in namespace %s, or correct spec.volumes of the application.", ref.Kind, ref.Name, pod.Namespace),
	}
}

var (
	missingVolumeKeyPattern = regexp.MustCompile(`references non-existent (secret|config) key: ([-._a-zA-Z0-9]{1,253})`)
	volumeNamePattern       = regexp.MustCompile(`(?:for volume "|unmounted volumes=\[)([-a-z0-9.]{1,253})`)
)

// checkSetupEvents checks the events of the node about setting up a pod.
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
			Message: fmt.Sprintf("Volume %s of Pod %s cannot be attached to Node %s", volumeNameFrom(ev), pod.Name, abbreviate(pod.Spec.NodeName)),
			Fix: "If the volume is still attached to another node, delete the pod there or remove that node; otherwise check the CSI driver; for details: " +
				describePodCommand(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	if ev, ok := e.latestEvent(o, []string{reasonFailedMount, reasonFailedMap}); ok {
		e.addPodCause(pod, volumeNameFrom(ev), Cause{
			Code: MountFailed, Path: "spec.volumes", Value: volumeNameFrom(ev), Since: began,
			Message:  fmt.Sprintf("Volume %s of Pod %s cannot be mounted on Node %s", volumeNameFrom(ev), pod.Name, abbreviate(pod.Spec.NodeName)),
			Fix:      "Check the mount error in the events of the pod: " + describePodCommand(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	if ev, ok := e.latestEvent(o, []string{reasonFailedSandbox, reasonNetworkNotReady}); ok {
		e.addPodCause(pod, pod.Spec.NodeName, Cause{
			Code: SandboxFailed, Path: "spec.nodeName", Value: pod.Spec.NodeName, Since: began,
			Message:  fmt.Sprintf("Node %s cannot create the sandbox and network of Pod %s", abbreviate(pod.Spec.NodeName), pod.Name),
			Fix:      "Check the network plugin (CNI) of the node; for details: " + describePodCommand(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	return false
}

// volumeNameFrom returns the name of the volume in an event.
func volumeNameFrom(ev Event) string {
	if found := volumeNamePattern.FindStringSubmatch(ev.Message); found != nil {
		return abbreviate(found[1])
	}
	return "(unknown)"
}

// missingVolumeKeyCause is a volume that refers to a missing key. The event does not name the object, so
// it is the first one in the pod spec whose volume has such a key.
func missingVolumeKeyCause(pod *corev1.Pod, kind, key string, ev Event, began time.Time) Cause {
	source := "a " + kind
	if holder := volumeSourceWithKey(pod, kind, key); holder != "" {
		source = fmt.Sprintf("%s %q", kind, abbreviate(holder))
	}
	return Cause{
		Code: MissingKey, Path: "spec.volumes", Value: key, Since: began,
		Message: fmt.Sprintf("Pod %s cannot start: a volume refers to key %q of %s in namespace %s, which has no such key", pod.Name,
			abbreviate(key), source, pod.Namespace),
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

// isCreating reports whether a pod is scheduled and none of its containers was started yet.
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
