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

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// nodeFailureWindow is how long a pod that its node terminated explains a missing pod.
const nodeFailureWindow = 10 * time.Minute

// terminationSlack is how long after its grace period a terminating pod counts as stuck.
const terminationSlack = 30 * time.Second

// checkNode reports a pod whose node is not ready. Without permission to read nodes, it follows from
// the pod: it is not ready although all of its containers are, and has no readiness gate.
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
			Message:  fmt.Sprintf("Node %s, which runs Pod %s, is not ready", node.Name, pod.Name),
			Fix:      "Repair the node, or delete it so that its pods are replaced; for details: kubectl describe node " + node.Name,
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
		Message: fmt.Sprintf("Node %s, which runs Pod %s, is not ready", abbreviate(pod.Spec.NodeName), pod.Name),
		Fix:     "Repair the node, or delete it so that its pods are replaced; for details: kubectl describe node " + pod.Spec.NodeName,
	})
	return true
}

// pressureNames describes node conditions in messages.
var pressureNames = map[corev1.NodeConditionType]string{
	corev1.NodeMemoryPressure: "memory pressure", corev1.NodeDiskPressure: "disk pressure",
	corev1.NodePIDPressure: "PID pressure", corev1.NodeNetworkUnavailable: "no network",
}

// addNodePressure reports the pressure conditions of the node of a pod that is not ready.
func (e *explainer) addNodePressure(pod *corev1.Pod, node *corev1.Node) {
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		shortage, known := pressureNames[c.Type]
		if !known || c.Status != corev1.ConditionTrue {
			continue
		}
		e.addPodCause(pod, node.Name+shortage, Cause{
			Code: NodePressure, Path: "spec.nodeName", Value: string(c.Type), Since: c.LastTransitionTime.Time,
			Message:  fmt.Sprintf("Node %s, which runs Pod %s, has %s", node.Name, pod.Name, shortage),
			Fix:      "Free resources on the node, or move pods to other nodes; for details: kubectl describe node " + node.Name,
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

// checkInactivePods checks inactive pods if pods are missing: the newest failed pod, and pods that are
// stuck terminating.
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

// addFailedByNode reports a pod that its node evicted, terminated or rejected.
func (e *explainer) addFailedByNode(pod *corev1.Pod) {
	at := falseSince(pod, corev1.ContainersReady, corev1.PodReady)
	until := at.Add(nodeFailureWindow)
	if !e.now.Before(until) {
		return
	}
	e.scheduleRecheck(until)
	c := Cause{
		Code: NodeAdmissionRejected, Path: "status.reason", Value: plaintext.Line(pod.Status.Reason, maxEvidence/4), Since: at,
		Message:  fmt.Sprintf("Pod %s was rejected by its node (%s)", pod.Name, safeReason(pod.Status.Reason)),
		Fix:      "Check the status and events of the pod: " + describePodCommand(pod),
		Evidence: evidence(pod.Status.Message),
	}
	if pod.Status.Reason == reasonEvicted {
		c.Code = Evicted
		c.Message = fmt.Sprintf("Pod %s was evicted: its node ran short of resources, or the pod exceeded its ephemeral-storage limit", pod.Name)
		c.Fix = "Set spec.resources of the application to the actual usage, including ephemeral-storage, or add node capacity; for details: " +
			describePodCommand(pod)
	}
	e.addPodCause(pod, e.workloadLabel(pod), c)
}

// safeReason returns a reason if it is one word, as Kubernetes writes them, and a placeholder otherwise.
func safeReason(reason string) string {
	if !reasonPattern.MatchString(reason) {
		return "unknown reason"
	}
	return reason
}

var reasonPattern = regexp.MustCompile(`^[a-zA-Z0-9]{1,64}$`)

// disruptionPhrases describes the reasons of condition DisruptionTarget in messages.
var disruptionPhrases = map[string]string{
	corev1.PodReasonPreemptionByScheduler: "was preempted by a pod of higher priority",
	"DeletionByTaintManager":              "was evicted because of a taint on its node",
	"EvictionByEvictionAPI":               "was evicted by an API request, such as a node drain,",
	corev1.PodReasonTerminationByKubelet:  "was terminated by its node",
	"DeletionByPodGC":                     "was on a node that no longer exists",
}

// checkTerminatingPod reports a terminating pod that was disrupted or that is past its grace period.
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
		phrase = "was disrupted"
	}
	e.addPodCause(pod, e.workloadLabel(pod)+c.Reason, Cause{
		Code: Disrupted, Path: `status.conditions[?(@.type=="DisruptionTarget")]`, Value: safeReason(c.Reason), Since: c.LastTransitionTime.Time,
		Message:  fmt.Sprintf("Pod %s %s and is being replaced", pod.Name, phrase),
		Fix:      "Wait for its replacement; a spec.disruption.budget of the application limits how many pods a drain evicts at once.",
		Evidence: evidence(c.Message),
	})
}

// addStuckTerminating reports a pod that is past its termination grace period.
func (e *explainer) addStuckTerminating(pod *corev1.Pod) {
	c := TerminatingCause(podRef(pod), pod.DeletionTimestamp.Time, pod.Finalizers)
	if len(pod.Finalizers) == 0 {
		c.Path, c.Value = "spec.nodeName", pod.Spec.NodeName
		c.Message = fmt.Sprintf("Pod %s is past its termination grace period, but Node %s has not confirmed that the pod terminated", pod.Name,
			abbreviate(pod.Spec.NodeName))
		c.Fix = "Check that the node is ready; if the node is permanently lost, force the deletion: " +
			"kubectl delete pod -n " + pod.Namespace + " " + pod.Name + " --force"
	}
	if _, isSet := e.snapshot.Workload.(*appsv1.StatefulSet); isSet {
		c.Message += "; the StatefulSet creates a replacement only after this pod is deleted"
	}
	e.addPodCause(pod, pod.Name, c)
}

// TerminatingCause returns the cause for an object whose deletion waits for finalizers.
func TerminatingCause(o ObjectRef, since time.Time, finalizers []string) Cause {
	c := Cause{Code: StuckTerminating, Severity: Error, Object: o, Path: "metadata.finalizers", Since: since}
	names := slices.Sorted(slices.Values(finalizers))
	c.Value = strings.Join(names, ", ")
	c.Message = plaintext.Line(fmt.Sprintf("The deletion of %s waits for finalizer %s", o, abbreviate(c.Value)), maxMessage)
	c.Fix = "Check the controller that owns the finalizer; remove the finalizer by hand only if that controller no longer exists."
	return c
}
