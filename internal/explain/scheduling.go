package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// schedulerGrace gives a new node or a terminating pod time to free capacity.
const schedulerGrace = 5 * time.Second

// schedulingReason is a reason why nodes do not fit a pod.
type schedulingReason struct {
	code    Code
	phrase  string // for a list of several reasons
	message string // if it is the only reason
	value   string
	fix     string
}

// schedulingPatterns are the reasons other than insufficient resources, by patterns in the message of
// the scheduler.
var schedulingPatterns = []struct {
	said, words, fix string
	code             Code
}{
	{"untolerated taint", "taints that the pod does not tolerate",
		"Remove the taints from the nodes, set spec.scheduling.tolerations of the application, or add nodes without these taints.", Taints},
	{"were unschedulable", "cordoned nodes", "Uncordon nodes, or add nodes.", Cordoned},
	{"persistentvolume's node affinity", "a volume node affinity conflict",
		"Add a node in the zone of the volume, or repair the node of a local volume; otherwise restore the data to a new volume.", VolumeNodeAffinityConflict},
	{"volume node affinity", "a volume node affinity conflict",
		"Add a node in the zone of the volume, or repair the node of a local volume; otherwise restore the data to a new volume.", VolumeNodeAffinityConflict},
	{"no available volume zone", "a volume node affinity conflict",
		"Add a node in the zone of the volume, or repair the node of a local volume; otherwise restore the data to a new volume.", VolumeNodeAffinityConflict},
	{"readwriteoncepod", "a ReadWriteOncePod volume that another pod uses", "Delete the pod that uses the volume.",
		VolumeNodeAffinityConflict},
	{"max volume count", "nodes that reached their volume limit", "Add a node, or move pods with volumes to other nodes.",
		VolumeNodeAffinityConflict},
	{"node affinity/selector", "the node selector or node affinity of the pod",
		"Label nodes to match, or change spec.scheduling of the application.", NodeSelector},
	{"affinity rules", "pod affinity or anti-affinity rules", "Add nodes, or relax the affinity rules.", NodeSelector},
	{"topology spread constraints", "topology spread constraints",
		"Add nodes in the topology domains that lack pods, or relax spec.scheduling.spread of the application.", NodeSelector},
	{"free ports", "host ports that are in use", "Add nodes, or free the host ports.", NodeSelector},
	{"unbound immediate persistentvolumeclaims", "unbound PersistentVolumeClaims", "Check the PersistentVolumeClaims of the pod.",
		ClaimPending},
	{"persistentvolumeclaim", "PersistentVolumeClaims of the pod", "Check the PersistentVolumeClaims of the pod.", Unschedulable},
	{"volume", "volumes of the pod", "Check the PersistentVolumeClaims of the pod.", Unschedulable},
}

// checkUnscheduled reports an unscheduled pod. The scheduler lists a reason for each node; a reason is
// only reported as the cause if it is the same for all nodes.
func (e *explainer) checkUnscheduled(pod *corev1.Pod, c *corev1.PodCondition) {
	began := falseSince(pod, corev1.PodScheduled)
	switch c.Reason {
	case corev1.PodReasonUnschedulable:
	case corev1.PodReasonSchedulingGated:
		e.addSchedulingGate(pod, began)
		return
	default:
		e.addSchedulerError(pod, c, began)
		return
	}
	if end := began.Add(schedulerGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	if e.checkClaims(pod) {
		return
	}
	text := plaintext.Line(c.Message, maxText)
	o := combineReasons(pod, parseSchedulerMessage(pod, text))
	e.addPodCause(pod, e.workloadLabel(pod)+" "+o.value, Cause{
		Code: o.code, Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: o.value, Since: began,
		Message: o.message, Fix: o.fix, Evidence: append(evidence(text), e.largestNode(o.code)...),
	})
}

// addSchedulingGate reports a pod with scheduling gates.
func (e *explainer) addSchedulingGate(pod *corev1.Pod, began time.Time) {
	if end := began.Add(minGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	var gates []string
	for _, g := range pod.Spec.SchedulingGates {
		gates = append(gates, abbreviate(g.Name))
	}
	list := strings.Join(gates, ", ")
	e.addPodCause(pod, e.workloadLabel(pod)+list, Cause{
		Code: SchedulingGated, Path: "spec.schedulingGates", Value: list, Since: began,
		Message: fmt.Sprintf("Pod %s is not scheduled until scheduling gate %s is removed", pod.Name, list),
		Fix:     "Check the controller that removes this scheduling gate.",
	})
}

// addSchedulerError reports a pod with a scheduler error that persists: the scheduler retries
// automatically.
func (e *explainer) addSchedulerError(pod *corev1.Pod, c *corev1.PodCondition, began time.Time) {
	if e.checkClaims(pod) {
		return
	}
	if end := began.Add(minGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.addPodCause(pod, e.workloadLabel(pod), Cause{
		Code: SchedulerError, Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: safeReason(c.Reason), Since: began,
		Message:  fmt.Sprintf("The scheduler reported an error for Pod %s", pod.Name),
		Fix:      "Check the error of the scheduler: " + describePodCommand(pod),
		Evidence: evidence(plaintext.Line(c.Message, maxText)),
	})
}

// combineReasons combines the reasons of all nodes.
func combineReasons(pod *corev1.Pod, reasons []schedulingReason) schedulingReason {
	fix := "Check the scheduler message about each node: " + describePodCommand(pod)
	switch len(reasons) {
	case 0:
		return schedulingReason{code: Unschedulable, message: fmt.Sprintf("Pod %s cannot be scheduled", pod.Name), fix: fix}
	case 1:
		return reasons[0]
	}
	phrases := make([]string, len(reasons))
	for i, o := range reasons {
		phrases[i] = o.phrase
	}
	list := strings.Join(phrases, ", ")
	return schedulingReason{
		code: Unschedulable, value: list, fix: fix,
		message: fmt.Sprintf("Pod %s cannot be scheduled for several reasons: %s", pod.Name, list),
	}
}

// parseSchedulerMessage reads the scheduler's message,
//
//	0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu. preemption: ...
//
// without the counts and without the part about preemption, which repeats the reasons.
func parseSchedulerMessage(pod *corev1.Pod, text string) []schedulingReason {
	_, list, ok := strings.Cut(text, "nodes are available: ")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, ". ")
	list, _, _ = strings.Cut(list, "preemption:")
	var reasons []schedulingReason
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.TrimSuffix(list, "."), ",") {
		reason := strings.TrimLeft(strings.TrimSpace(part), "0123456789 ")
		if reason == "" {
			continue
		}
		if o := reasonFor(pod, reason); !seen[o.phrase] {
			seen[o.phrase] = true
			reasons = append(reasons, o)
		}
	}
	// The scheduler sorts by the counts, so its order is not stable.
	slices.SortFunc(reasons, func(a, b schedulingReason) int { return strings.Compare(a.phrase, b.phrase) })
	return reasons
}

func reasonFor(pod *corev1.Pod, reason string) schedulingReason {
	if reason == "Too many pods" {
		return schedulingReason{
			code: InsufficientPods, phrase: "nodes that reached their pod limit",
			message: fmt.Sprintf("Pod %s cannot be scheduled: all nodes reached their pod limit", pod.Name),
			fix:     "Add a node, or scale down other workloads.",
		}
	}
	if name, ok := strings.CutPrefix(reason, "Insufficient "); ok {
		return insufficientReason(pod, corev1.ResourceName(name))
	}
	if found := missingClaimPattern.FindStringSubmatch(reason); found != nil {
		return missingClaimReason(pod, found[1])
	}
	reason = strings.ToLower(reason)
	for _, o := range schedulingPatterns {
		if strings.Contains(reason, o.said) {
			return schedulingReason{
				code: o.code, phrase: o.words, value: o.words, fix: o.fix,
				message: fmt.Sprintf("Pod %s cannot be scheduled because of %s", pod.Name, o.words),
			}
		}
	}
	return schedulingReason{
		code: Unschedulable, phrase: "an unknown reason",
		message: fmt.Sprintf("Pod %s cannot be scheduled", pod.Name),
		fix:     "Check the scheduler message about each node: " + describePodCommand(pod),
	}
}

// missingClaimPattern accepts only valid claim names.
var missingClaimPattern = regexp.MustCompile(`^persistentvolumeclaim "([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)" not found$`)

// missingClaimReason is a pod whose claim does not exist; the nodes do not matter.
func missingClaimReason(pod *corev1.Pod, claim string) schedulingReason {
	return schedulingReason{
		code: MissingClaim, phrase: "a missing PersistentVolumeClaim", value: claim,
		message: fmt.Sprintf("Pod %s needs PersistentVolumeClaim %q, which does not exist in namespace %s", pod.Name, abbreviate(claim), pod.Namespace),
		fix:     fmt.Sprintf("Create PersistentVolumeClaim %q in namespace %s, or correct spec.volumes of the application.", claim, pod.Namespace),
	}
}

// insufficientReason is a resource that no node has enough of. Only resources in the requests of the
// pod are named: they are stable and no text of another program.
func insufficientReason(pod *corev1.Pod, name corev1.ResourceName) schedulingReason {
	requested := podRequest(pod, name)
	o, unit := schedulingReason{code: Insufficient, value: string(name)}, "of a resource"
	switch {
	case name == corev1.ResourceCPU:
		o.code, o.value, unit = InsufficientCPU, requested.String(), "CPU"
	case name == corev1.ResourceMemory:
		o.code, o.value, unit = InsufficientMemory, requested.String(), "memory"
	case !requested.IsZero():
		unit = string(name)
	}
	o.phrase = "not enough " + unit
	o.message = fmt.Sprintf("No node has enough %s for Pod %s", unit, pod.Name)
	if !requested.IsZero() {
		o.phrase += fmt.Sprintf(" (%s requested)", requested.String())
		o.message += fmt.Sprintf(": it requests %s %s", requested.String(), unit)
	}
	o.fix = "Lower spec.resources.requests of the application, or add a node with enough capacity."
	return o
}

// largestNode returns the capacity of the largest node as evidence: a request above it never fits.
func (e *explainer) largestNode(code Code) []string {
	name, ok := map[Code]corev1.ResourceName{InsufficientCPU: corev1.ResourceCPU, InsufficientMemory: corev1.ResourceMemory}[code]
	var largest resource.Quantity
	for _, n := range e.snapshot.Nodes {
		largest = maxQuantity(largest, n.Status.Allocatable[name])
	}
	if !ok || largest.IsZero() {
		return nil
	}
	return []string{fmt.Sprintf("the largest node has %s %s", largest.String(), name)}
}

// podRequest returns the effective request of a pod, as the scheduler computes it: the maximum that
// runs at the same time. Init containers run one after the other before the others; sidecars keep
// running.
func podRequest(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var running, peak resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		current := running.DeepCopy()
		current.Add(c.Resources.Requests[name])
		if isSidecar(c) {
			running = current
		}
		peak = maxQuantity(peak, current)
	}
	for i := range pod.Spec.Containers {
		running.Add(pod.Spec.Containers[i].Resources.Requests[name])
	}
	peak = maxQuantity(peak, running)
	if r := pod.Spec.Resources; r != nil {
		if podLevel, ok := r.Requests[name]; ok {
			peak = podLevel.DeepCopy()
		}
	}
	peak.Add(pod.Spec.Overhead[name])
	return peak
}

func maxQuantity(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}
