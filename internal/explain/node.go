package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// goneLasts is how long a pod that its node ended explains why one is missing.
const goneLasts = 10 * time.Minute

// overdue is how long after the end of its grace period a pod counts as stuck.
const overdue = 30 * time.Second

// silentNode is a pod whose node does not report. Who may not read nodes sees it too: the
// pod is not ready although all of its containers are, and waits for no gate.
func (e *examiner) silentNode(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || isReady(pod) {
		return false
	}
	if node := e.node(pod.Spec.NodeName); node != nil {
		c := nodeCondition(node, corev1.NodeReady)
		if c == nil || c.Status == corev1.ConditionTrue {
			e.pressure(pod, node)
			return false
		}
		e.add(pod, node.Name, Cause{
			Code: NodeNotReady, Path: "spec.nodeName", Value: node.Name, Since: c.LastTransitionTime.Time,
			Sentence: fmt.Sprintf("Node %s, which runs pod %s, does not report", node.Name, pod.Name),
			Fix:      "Bring the node back or remove it, so that its pods are replaced: kubectl describe node " + node.Name,
			Evidence: evidence(c.Reason, c.Message),
		})
		return true
	}
	ready, containers := condition(pod, corev1.PodReady), condition(pod, corev1.ContainersReady)
	if ready == nil || containers == nil || containers.Status != corev1.ConditionTrue || ready.Reason != "" {
		return false
	}
	e.add(pod, pod.Spec.NodeName, Cause{
		Code: NodeNotReady, Path: "spec.nodeName", Value: pod.Spec.NodeName, Since: since(pod, corev1.PodReady),
		Sentence: fmt.Sprintf("Node %s, which runs pod %s, does not report", short(pod.Spec.NodeName), pod.Name),
		Fix:      "Bring the node back or remove it, so that its pods are replaced: kubectl describe node " + pod.Spec.NodeName,
	})
	return true
}

// pressures are what a node can be short of.
var pressures = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: "memory", corev1.NodeDiskPressure: "disk", corev1.NodePIDPressure: "process ids", corev1.NodeNetworkUnavailable: "network",
}

// pressure is a node that is short of something while a pod of it is not ready.
func (e *examiner) pressure(pod *corev1.Pod, node *corev1.Node) {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		what, known := pressures[c.Type]
		if !known || c.Status != corev1.ConditionTrue {
			continue
		}
		e.add(pod, node.Name+what, Cause{
			Code: NodePressure, Path: "spec.nodeName", Value: string(c.Type), Since: c.LastTransitionTime.Time,
			Sentence: fmt.Sprintf("Node %s, which runs pod %s, is short of %s", node.Name, pod.Name, what),
			Fix:      "Free some of it, or move pods away: kubectl describe node " + node.Name,
			Evidence: evidence(c.Message),
		})
	}
}

func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// gone is about pods that are not expected to run any more, when some are missing: what
// became of the last one that failed, and one that should be gone and is not.
func (e *examiner) gone() {
	var failed *corev1.Pod
	for _, pod := range e.scene.Pods {
		switch {
		case pod == nil:
		case pod.DeletionTimestamp != nil:
			e.leaving(pod)
		case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "":
			if failed == nil || cmp.Or(failed.CreationTimestamp.Compare(pod.CreationTimestamp.Time), strings.Compare(failed.Name, pod.Name)) < 0 {
				failed = pod
			}
		}
	}
	if failed != nil && !e.blocked() {
		e.turnedAway(failed)
	}
}

// turnedAway is a pod that its node ended or did not take.
func (e *examiner) turnedAway(pod *corev1.Pod) {
	at := since(pod, corev1.ContainersReady, corev1.PodReady)
	until := at.Add(goneLasts)
	if !e.now.Before(until) {
		return
	}
	e.look(until)
	c := Cause{
		Code: AdmissionAtNode, Path: "status.reason", Value: plain(pod.Status.Reason, maxEvidence/4), Since: at,
		Sentence: fmt.Sprintf("A node turned pod %s away (%s)", pod.Name, reasonWord(pod.Status.Reason)),
		Fix:      "Look at what the node said: " + lookUp(pod),
		Evidence: evidence(pod.Status.Message),
	}
	if pod.Status.Reason == reasonEvicted {
		c.Code = Evicted
		c.Sentence = fmt.Sprintf("Pod %s was evicted: its node needed back what it used", pod.Name)
		c.Fix = "Set spec.resources of the application to what it needs, disk included, or give the nodes more: " + lookUp(pod)
	}
	e.add(pod, workload(pod), c)
}

// reasonWord is a reason as Kubernetes writes them, one word, or a word for anything else.
func reasonWord(reason string) string {
	if !oneWord.MatchString(reason) {
		return "no known reason"
	}
	return reason
}

var oneWord = regexp.MustCompile(`^[a-zA-Z0-9]{1,64}$`)

// disruptions are why pods are ended from outside.
var disruptions = map[string]string{
	corev1.PodReasonPreemptionByScheduler: "made way for a pod of higher priority",
	"DeletionByTaintManager":              "had to leave its node, which has a taint",
	"EvictionByEvictionAPI":               "was evicted by a drain",
	corev1.PodReasonTerminationByKubelet:  "was ended by its node",
	"DeletionByPodGC":                     "was on a node that is gone",
}

// leaving is a pod on its way out: drained or preempted, or longer than it may take.
func (e *examiner) leaving(pod *corev1.Pod) {
	end := pod.DeletionTimestamp.Add(overdue)
	if !e.now.Before(end) {
		e.undead(pod)
		return
	}
	e.look(end)
	c := condition(pod, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue {
		return
	}
	how, known := disruptions[c.Reason]
	if !known {
		how = "was ended from outside"
	}
	e.add(pod, workload(pod)+c.Reason, Cause{
		Code: Disrupted, Path: `status.conditions[?(@.type=="DisruptionTarget")]`, Value: reasonWord(c.Reason), Since: c.LastTransitionTime.Time,
		Sentence: fmt.Sprintf("Pod %s %s and is being replaced", pod.Name, how),
		Fix:      "Wait for its replacement; a spec.disruption.budget of the application keeps drains from taking too many at once.",
		Evidence: evidence(c.Message),
	})
}

// undead is a pod that should be gone.
func (e *examiner) undead(pod *corev1.Pod) {
	c := Terminating(podObject(pod), pod.DeletionTimestamp.Time, pod.Finalizers)
	if len(pod.Finalizers) == 0 {
		c.Path, c.Value = "spec.nodeName", pod.Spec.NodeName
		c.Sentence = fmt.Sprintf("Pod %s was deleted and should be gone, but its node %s has not confirmed that it ended", pod.Name, short(pod.Spec.NodeName))
		c.Fix = "See whether the node reports; if it is gone for good: kubectl delete pod -n " + pod.Namespace + " " + pod.Name + " --force"
	}
	if _, isSet := e.scene.Workload.(*appsv1.StatefulSet); isSet {
		c.Sentence += ", and the pod of the same name waits for that"
	}
	e.add(pod, pod.Name, c)
}

// Terminating is something that was deleted and is held by finalizers.
func Terminating(o Object, since time.Time, finalizers []string) Cause {
	c := Cause{Code: StuckTerminating, Severity: Error, Object: o, Path: "metadata.finalizers", Since: since}
	names := slices.Sorted(slices.Values(finalizers))
	c.Value = strings.Join(names, ", ")
	c.Sentence = plain(fmt.Sprintf("The deletion of %s waits for finalizer %s", o, short(c.Value)), maxSentence)
	c.Fix = "Look at the controller that owns the finalizer; take it off by hand only if that controller is gone for good."
	return c
}
