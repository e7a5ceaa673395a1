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
	reasonFailedMount   = "FailedMount"
	reasonFailedMap     = "FailedMapVolume"
	reasonFailedAttach  = "FailedAttachVolume"
	reasonFailedSandbox = "FailedCreatePodSandBox"
	reasonNoNetwork     = "NetworkNotReady"
)

// beingCreated is a pod on a node of which nothing was started yet. It does not tell itself
// what it waits for: its containers are created, it says, for as long as that takes.
func (e *examiner) beingCreated(pod *corev1.Pod) {
	if !isBeingCreated(pod) {
		return
	}
	began := since(pod, corev1.ContainersReady, corev1.PodReady)
	for _, ref := range e.scene.Absent {
		e.add(pod, ref.Name, unmounted(pod, ref, began))
	}
	if len(e.scene.Absent) > 0 || e.claims(pod) || e.unmountable(pod, began) {
		return
	}
	if end := began.Add(creationGrace); e.now.Before(end) {
		e.look(end)
		return
	}
	e.ask(podObject(pod))
}

// unmounted is a volume that shows what does not exist.
func unmounted(pod *corev1.Pod, ref Ref, began time.Time) Cause {
	return Cause{
		Code: codeOf(ref.Kind), Path: "spec.volumes", Value: ref.Name, Since: began,
		Sentence: fmt.Sprintf("Pod %s cannot start: a volume shows %s %q, which does not exist in namespace %s", pod.Name, ref.Kind, short(ref.Name), pod.Namespace),
		Fix:      fmt.Sprintf("Create %s %q in namespace %s, or correct spec.volumes of the application.", ref.Kind, ref.Name, pod.Namespace),
	}
}

var (
	mountedKey = regexp.MustCompile(`references non-existent (secret|config) key: ([-._a-zA-Z0-9]{1,253})`)
	volumeName = regexp.MustCompile(`(?:for volume "|unmounted volumes=\[)([-a-z0-9.]{1,253})`)
)

// unmountable is what the node says about setting up a pod.
func (e *examiner) unmountable(pod *corev1.Pod, began time.Time) bool {
	o := podObject(pod)
	if ev, ok := e.event(o, []string{reasonFailedMount}, "not found"); ok {
		if found := missingRef.FindStringSubmatch(ev.Message); found != nil {
			c := unmounted(pod, Ref{kindCalled(found[1]), found[2]}, began)
			c.Evidence = []string{ev.String()}
			e.add(pod, found[2], c)
			return true
		}
	}
	if ev, ok := e.event(o, []string{reasonFailedMount}, "non-existent"); ok {
		if found := mountedKey.FindStringSubmatch(ev.Message); found != nil {
			e.add(pod, found[2], lacksKey(pod, kindCalled(found[1]), found[2], ev, began))
			return true
		}
	}
	if end := began.Add(setupGrace); e.now.Before(end) {
		e.look(end)
		return false
	}
	if ev, ok := e.event(o, []string{reasonFailedAttach}); ok {
		e.add(pod, "attach "+pod.Name, Cause{
			Code: AttachFailed, Path: "spec.volumes", Value: volumeIn(ev), Since: began,
			Sentence: fmt.Sprintf("Volume %s of pod %s cannot be attached to node %s", volumeIn(ev), pod.Name, short(pod.Spec.NodeName)),
			Fix:      "If another node still has the volume, end the pod there or remove that node; else look at the driver of the volume: " + lookUp(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	if ev, ok := e.event(o, []string{reasonFailedMount, reasonFailedMap}); ok {
		e.add(pod, volumeIn(ev), Cause{
			Code: MountFailed, Path: "spec.volumes", Value: volumeIn(ev), Since: began,
			Sentence: fmt.Sprintf("Volume %s of pod %s cannot be mounted on node %s", volumeIn(ev), pod.Name, short(pod.Spec.NodeName)),
			Fix:      "Look at what the node said about the volume: " + lookUp(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	if ev, ok := e.event(o, []string{reasonFailedSandbox, reasonNoNetwork}); ok {
		e.add(pod, pod.Spec.NodeName, Cause{
			Code: SandboxFailed, Path: "spec.nodeName", Value: pod.Spec.NodeName, Since: began,
			Sentence: fmt.Sprintf("Node %s cannot set up pod %s and its network", short(pod.Spec.NodeName), pod.Name),
			Fix:      "Look at the network plugin of the node: " + lookUp(pod),
			Evidence: []string{ev.String()},
		})
		return true
	}
	return false
}

// volumeIn is the name of the volume that an event is about.
func volumeIn(ev Event) string {
	if found := volumeName.FindStringSubmatch(ev.Message); found != nil {
		return short(found[1])
	}
	return "(not named)"
}

// lacksKey is a volume that shows a key which is not there. The event does not say of which
// object; the pod does, if one volume alone has such a key.
func lacksKey(pod *corev1.Pod, kind, key string, ev Event, began time.Time) Cause {
	of := "a " + kind
	if holder := holderOf(pod, kind, key); holder != "" {
		of = fmt.Sprintf("%s %q", kind, short(holder))
	}
	return Cause{
		Code: MissingKey, Path: "spec.volumes", Value: key, Since: began,
		Sentence: fmt.Sprintf("Pod %s cannot start: a volume shows key %q of %s in namespace %s, which has no such key", pod.Name, short(key), of, pod.Namespace),
		Fix:      fmt.Sprintf("Add key %q to %s in namespace %s, or correct spec.volumes of the application.", key, of, pod.Namespace),
		Evidence: []string{ev.String()},
	}
}

func holderOf(pod *corev1.Pod, kind, key string) string {
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
