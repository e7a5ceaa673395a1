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

// nodeFailureWindow is how long a pod that its node ended explains why one is missing.
const nodeFailureWindow = 10 * time.Minute

// terminationSlack is how long after the end of its grace period a pod counts as stuck.
const terminationSlack = 30 * time.Second

// checkNode is a pod whose node does not report. Who may not read nodes sees it too: the
// pod is not ready although all of its containers are, and waits for no gate.
func (e *explainer) checkNode(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || isReady(pod) {
		return false
	}
	if node := e.nodeByName(pod.Spec.NodeName); node != nil {
		c := nodeCondition(node, corev1.NodeReady)
		if c == nil || c.Status == corev1.ConditionTrue {
			e.addNodePressure(pod, node)
			return false
		}
		e.addPodCause(pod, node.Name, Cause{
			Code: NodeNotReady, Path: "spec.nodeName", Value: node.Name, Since: c.LastTransitionTime.Time,
			Message:  fmt.Sprintf("Node %s, which runs pod %s, does not report", node.Name, pod.Name),
			Fix:      "Bring the node back or remove it, so that its pods are replaced: kubectl describe node " + node.Name,
			Evidence: evidence(c.Reason, c.Message),
		})
		return true
	}
	ready, containers := podCondition(pod, corev1.PodReady), podCondition(pod, corev1.ContainersReady)
	if ready == nil || containers == nil || containers.Status != corev1.ConditionTrue || ready.Reason != "" {
		return false
	}
	e.addPodCause(pod, pod.Spec.NodeName, Cause{
		Code: NodeNotReady, Path: "spec.nodeName", Value: pod.Spec.NodeName, Since: falseSince(pod, corev1.PodReady),
		Message: fmt.Sprintf("Node %s, which runs pod %s, does not report", abbreviate(pod.Spec.NodeName), pod.Name),
		Fix:     "Bring the node back or remove it, so that its pods are replaced: kubectl describe node " + pod.Spec.NodeName,
	})
	return true
}

// pressureNames are what a node can be short of.
var pressureNames = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: "memory", corev1.NodeDiskPressure: "disk", corev1.NodePIDPressure: "process ids", corev1.NodeNetworkUnavailable: "network",
}

// addNodePressure is a node that is short of something while a pod of it is not ready.
func (e *explainer) addNodePressure(pod *corev1.Pod, node *corev1.Node) {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		shortage, known := pressureNames[c.Type]
		if !known || c.Status != corev1.ConditionTrue {
			continue
		}
		e.addPodCause(pod, node.Name+shortage, Cause{
			Code: NodePressure, Path: "spec.nodeName", Value: string(c.Type), Since: c.LastTransitionTime.Time,
			Message:  fmt.Sprintf("Node %s, which runs pod %s, is short of %s", node.Name, pod.Name, shortage),
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

// checkInactivePods is about pods that are not expected to run any more, when some are missing: what
// became of the last one that failed, and one that should be gone and is not.
func (e *explainer) checkInactivePods() {
	var failed *corev1.Pod
	for _, pod := range e.snapshot.Pods {
		switch {
		case pod == nil:
		case pod.DeletionTimestamp != nil:
			e.checkTerminatingPod(pod)
		case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "":
			if failed == nil || cmp.Or(failed.CreationTimestamp.Compare(pod.CreationTimestamp.Time), strings.Compare(failed.Name, pod.Name)) < 0 {
				failed = pod
			}
		}
	}
	if failed != nil && !e.hasError() {
		e.addFailedByNode(failed)
	}
}

// addFailedByNode is a pod that its node ended or did not take.
func (e *explainer) addFailedByNode(pod *corev1.Pod) {
	at := falseSince(pod, corev1.ContainersReady, corev1.PodReady)
	until := at.Add(nodeFailureWindow)
	if !e.now.Before(until) {
		return
	}
	e.scheduleRecheck(until)
	c := Cause{
		Code: NodeAdmissionRejected, Path: "status.reason", Value: sanitize(pod.Status.Reason, maxEvidence/4), Since: at,
		Message:  fmt.Sprintf("A node turned pod %s away (%s)", pod.Name, safeReason(pod.Status.Reason)),
		Fix:      "Look at what the node said: " + describePodCommand(pod),
		Evidence: evidence(pod.Status.Message),
	}
	if pod.Status.Reason == reasonEvicted {
		c.Code = Evicted
		c.Message = fmt.Sprintf("Pod %s was evicted: its node needed back what it used", pod.Name)
		c.Fix = "Set spec.resources of the application to what it needs, disk included, or give the nodes more: " + describePodCommand(pod)
	}
	e.addPodCause(pod, workloadLabel(pod), c)
}

// safeReason is a reason as Kubernetes writes them, one word, or a word for anything else.
func safeReason(reason string) string {
	if !reasonPattern.MatchString(reason) {
		return "no known reason"
	}
	return reason
}

var reasonPattern = regexp.MustCompile(`^[a-zA-Z0-9]{1,64}$`)

// disruptionPhrases are why pods are ended from outside.
var disruptionPhrases = map[string]string{
	corev1.PodReasonPreemptionByScheduler: "made way for a pod of higher priority",
	"DeletionByTaintManager":              "had to leave its node, which has a taint",
	"EvictionByEvictionAPI":               "was evicted by a drain",
	corev1.PodReasonTerminationByKubelet:  "was ended by its node",
	"DeletionByPodGC":                     "was on a node that is gone",
}

// checkTerminatingPod is a pod on its way out: drained or preempted, or longer than it may take.
func (e *explainer) checkTerminatingPod(pod *corev1.Pod) {
	end := pod.DeletionTimestamp.Add(terminationSlack)
	if !e.now.Before(end) {
		e.addStuckTerminating(pod)
		return
	}
	e.scheduleRecheck(end)
	c := podCondition(pod, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue {
		return
	}
	phrase, known := disruptionPhrases[c.Reason]
	if !known {
		phrase = "was ended from outside"
	}
	e.addPodCause(pod, workloadLabel(pod)+c.Reason, Cause{
		Code: Disrupted, Path: `status.conditions[?(@.type=="DisruptionTarget")]`, Value: safeReason(c.Reason), Since: c.LastTransitionTime.Time,
		Message:  fmt.Sprintf("Pod %s %s and is being replaced", pod.Name, phrase),
		Fix:      "Wait for its replacement; a spec.disruption.budget of the application keeps drains from taking too many at once.",
		Evidence: evidence(c.Message),
	})
}

// addStuckTerminating is a pod that should be gone.
func (e *explainer) addStuckTerminating(pod *corev1.Pod) {
	c := TerminatingCause(podRef(pod), pod.DeletionTimestamp.Time, pod.Finalizers)
	if len(pod.Finalizers) == 0 {
		c.Path, c.Value = "spec.nodeName", pod.Spec.NodeName
		c.Message = fmt.Sprintf("Pod %s was deleted and should be gone, but its node %s has not confirmed that it ended", pod.Name, abbreviate(pod.Spec.NodeName))
		c.Fix = "See whether the node reports; if it is gone for good: kubectl delete pod -n " + pod.Namespace + " " + pod.Name + " --force"
	}
	if _, isSet := e.snapshot.Workload.(*appsv1.StatefulSet); isSet {
		c.Message += ", and the pod of the same name waits for that"
	}
	e.addPodCause(pod, pod.Name, c)
}

// TerminatingCause is something that was deleted and is held by finalizers.
func TerminatingCause(o ObjectRef, since time.Time, finalizers []string) Cause {
	c := Cause{Code: StuckTerminating, Severity: Error, Object: o, Path: "metadata.finalizers", Since: since}
	names := slices.Sorted(slices.Values(finalizers))
	c.Value = strings.Join(names, ", ")
	c.Message = sanitize(fmt.Sprintf("The deletion of %s waits for finalizer %s", o, abbreviate(c.Value)), maxMessage)
	c.Fix = "Look at the controller that owns the finalizer; take it off by hand only if that controller is gone for good."
	return c
}
