package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// schedulerGrace lets a node that is just coming, or a pod that is just going, make room.
const schedulerGrace = 5 * time.Second

// schedulingReason is one thing that keeps nodes from taking a pod.
type schedulingReason struct {
	code    Code
	phrase  string // in a list of several
	message string // as a sentence, if it is the only one
	value   string
	fix     string
}

// schedulingPatterns are those that have nothing to do with how much a node has, by what the
// scheduler says.
var schedulingPatterns = []struct {
	said, words, fix string
	code             Code
}{
	{"untolerated taint", "taints that the pod does not tolerate", "Take the taints off the nodes, set spec.scheduling.tolerations of the application, or add nodes without them.", Taints},
	{"were unschedulable", "cordoned nodes", "Uncordon nodes, or add some.", Cordoned},
	{"persistentvolume's node affinity", "volumes that live where no node fits", "Bring back the node or zone of the volume, or restore its data elsewhere.", VolumeNodeAffinityConflict},
	{"volume node affinity", "volumes that live where no node fits", "Bring back the node or zone of the volume, or restore its data elsewhere.", VolumeNodeAffinityConflict},
	{"no available volume zone", "volumes that live where no node fits", "Bring back the node or zone of the volume, or restore its data elsewhere.", VolumeNodeAffinityConflict},
	{"readwriteoncepod", "a volume that another pod has for itself", "End the pod that has the volume.", VolumeNodeAffinityConflict},
	{"max volume count", "nodes that hold as many volumes as they may", "Add a node, or move pods with volumes away.", VolumeNodeAffinityConflict},
	{"node affinity/selector", "the node selector or node affinity of the pod", "Label nodes as the pod wants them, or change spec.scheduling of the application.", NodeSelector},
	{"affinity rules", "affinity rules between pods", "Add nodes, or relax the affinity rules.", NodeSelector},
	{"topology spread constraints", "topology spread constraints", "Add nodes where pods are missing, or relax spec.scheduling.spread of the application.", NodeSelector},
	{"free ports", "host ports that are taken", "Add nodes, or free the host ports.", NodeSelector},
	{"unbound immediate persistentvolumeclaims", "volume claims that have no volume yet", "Look at the volume claims of the pod.", ClaimPending},
	{"persistentvolumeclaim", "volume claims of the pod", "Look at the volume claims of the pod.", Unschedulable},
	{"volume", "volumes of the pod", "Look at the volume claims of the pod.", Unschedulable},
}

// checkUnscheduled is a pod that no node takes. The scheduler counts nodes by what was in the
// way of each: only if that is one thing, it is named as the reason.
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
	text := sanitize(c.Message, maxText)
	o := combineReasons(pod, parseSchedulerMessage(pod, text))
	e.addPodCause(pod, workloadLabel(pod)+" "+o.value, Cause{
		Code: o.code, Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: o.value, Since: began,
		Message: o.message, Fix: o.fix, Evidence: evidence(text),
	})
}

// addSchedulingGate is a pod that somebody else has to let go.
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
	e.addPodCause(pod, workloadLabel(pod)+list, Cause{
		Code: SchedulingGated, Path: "spec.schedulingGates", Value: list, Since: began,
		Message: fmt.Sprintf("Pod %s is held by scheduling gate %s, which its owner has to remove", pod.Name, list),
		Fix:     "Look at the controller that owns the gate.",
	})
}

// addSchedulerError is a pod that the scheduler could not judge. It tries again by itself, so
// that is only said when it lasts.
func (e *explainer) addSchedulerError(pod *corev1.Pod, c *corev1.PodCondition, began time.Time) {
	if e.checkClaims(pod) {
		return
	}
	if end := began.Add(minGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.addPodCause(pod, workloadLabel(pod), Cause{
		Code: SchedulerError, Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: safeReason(c.Reason), Since: began,
		Message:  fmt.Sprintf("The scheduler met an error with pod %s", pod.Name),
		Fix:      "Look at what the scheduler says: " + describePodCommand(pod),
		Evidence: evidence(sanitize(c.Message, maxText)),
	})
}

// combineReasons is what all obstacles come to.
func combineReasons(pod *corev1.Pod, reasons []schedulingReason) schedulingReason {
	fix := "Look at what the scheduler says about each node: " + describePodCommand(pod)
	switch len(reasons) {
	case 0:
		return schedulingReason{code: Unschedulable, message: fmt.Sprintf("No node takes pod %s", pod.Name), fix: fix}
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
		message: fmt.Sprintf("No node takes pod %s, for several reasons: %s", pod.Name, list),
	}
}

// parseSchedulerMessage reads the scheduler's message,
//
//	0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu. preemption: ...
//
// without the counts and without what it says about preemption, which only repeats why
// nothing can be moved out of the way.
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
	// The scheduler's own order goes by the counts, and changes with them.
	slices.SortFunc(reasons, func(a, b schedulingReason) int { return strings.Compare(a.phrase, b.phrase) })
	return reasons
}

func reasonFor(pod *corev1.Pod, reason string) schedulingReason {
	if reason == "Too many pods" {
		return schedulingReason{
			code: InsufficientPods, phrase: "nodes that hold as many pods as they may",
			message: fmt.Sprintf("No node has room for pod %s: all hold as many pods as they may", pod.Name),
			fix:     "Add a node, or scale something down.",
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
				message: fmt.Sprintf("No node takes pod %s because of %s", pod.Name, o.words),
			}
		}
	}
	return schedulingReason{
		code: Unschedulable, phrase: "a reason that is not known here",
		message: fmt.Sprintf("No node takes pod %s", pod.Name),
		fix:     "Look at what the scheduler says about each node: " + describePodCommand(pod),
	}
}

// missingClaimPattern accepts only what can be the name of a claim.
var missingClaimPattern = regexp.MustCompile(`^persistentvolumeclaim "([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)" not found$`)

// missingClaimReason is a pod whose claim does not exist: no node is at fault.
func missingClaimReason(pod *corev1.Pod, claim string) schedulingReason {
	return schedulingReason{
		code: MissingClaim, phrase: "a missing volume claim", value: claim,
		message: fmt.Sprintf("Pod %s needs PersistentVolumeClaim %q, which does not exist in namespace %s", pod.Name, abbreviate(claim), pod.Namespace),
		fix:     fmt.Sprintf("Create PersistentVolumeClaim %q in namespace %s, or correct spec.volumes of the application.", claim, pod.Namespace),
	}
}

// insufficientReason is a resource that no node has enough of. What the pod asks for is in its spec
// and as stable as that; a resource that is not asked for there is not named.
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
	o.message = fmt.Sprintf("No node has enough %s for pod %s", unit, pod.Name)
	if !requested.IsZero() {
		o.phrase += fmt.Sprintf(" (%s asked for)", requested.String())
		o.message += fmt.Sprintf(": it asks for %s %s", requested.String(), unit)
	}
	o.fix = "Lower spec.resources.requests of the application, or add a node that has enough."
	return o
}

// podRequest is what the scheduler reserves for a pod: what its containers need at the same
// time. Init containers run one after the other and before the rest, except for those
// that stay.
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
