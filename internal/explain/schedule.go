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

// obstacle is one thing that keeps nodes from taking a pod.
type obstacle struct {
	code  Code
	words string // in a list of several
	whole string // as a sentence, if it is the only one
	value string
	fix   string
}

// obstacles are those that have nothing to do with how much a node has, by what the
// scheduler says.
var obstacles = []struct {
	said, words, fix string
	code             Code
}{
	{"untolerated taint", "taints that the pod does not tolerate", "Take the taints off the nodes, set spec.scheduling.tolerations of the application, or add nodes without them.", Taints},
	{"were unschedulable", "cordoned nodes", "Uncordon nodes, or add some.", Cordoned},
	{"persistentvolume's node affinity", "volumes that live where no node fits", "Bring back the node or zone of the volume, or restore its data elsewhere.", VolumeUnreachable},
	{"volume node affinity", "volumes that live where no node fits", "Bring back the node or zone of the volume, or restore its data elsewhere.", VolumeUnreachable},
	{"no available volume zone", "volumes that live where no node fits", "Bring back the node or zone of the volume, or restore its data elsewhere.", VolumeUnreachable},
	{"readwriteoncepod", "a volume that another pod has for itself", "End the pod that has the volume.", VolumeUnreachable},
	{"max volume count", "nodes that hold as many volumes as they may", "Add a node, or move pods with volumes away.", VolumeUnreachable},
	{"node affinity/selector", "the node selector or node affinity of the pod", "Label nodes as the pod wants them, or change spec.scheduling of the application.", NodeSelector},
	{"affinity rules", "affinity rules between pods", "Add nodes, or relax the affinity rules.", NodeSelector},
	{"topology spread constraints", "topology spread constraints", "Add nodes where pods are missing, or relax spec.scheduling.spread of the application.", NodeSelector},
	{"free ports", "host ports that are taken", "Add nodes, or free the host ports.", NodeSelector},
	{"unbound immediate persistentvolumeclaims", "volume claims that have no volume yet", "Look at the volume claims of the pod.", ClaimPending},
	{"persistentvolumeclaim", "volume claims of the pod", "Look at the volume claims of the pod.", Unschedulable},
	{"volume", "volumes of the pod", "Look at the volume claims of the pod.", Unschedulable},
}

// unscheduled is a pod that no node takes. The scheduler counts nodes by what was in the
// way of each: only if that is one thing, it is named as the reason.
func (e *examiner) unscheduled(pod *corev1.Pod, c *corev1.PodCondition) {
	began := since(pod, corev1.PodScheduled)
	switch c.Reason {
	case corev1.PodReasonUnschedulable:
	case corev1.PodReasonSchedulingGated:
		e.schedulingGate(pod, began)
		return
	default:
		e.schedulerError(pod, c, began)
		return
	}
	if end := began.Add(schedulerGrace); e.now.Before(end) {
		e.look(end)
		return
	}
	if e.claims(pod) {
		return
	}
	text := plain(c.Message, maxText)
	o := together(pod, obstaclesIn(pod, text))
	e.add(pod, workload(pod)+" "+o.value, Cause{
		Code: o.code, Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: o.value, Since: began,
		Sentence: o.whole, Fix: o.fix, Evidence: evidence(text),
	})
}

// schedulingGate is a pod that somebody else has to let go.
func (e *examiner) schedulingGate(pod *corev1.Pod, began time.Time) {
	if end := began.Add(minSilence); e.now.Before(end) {
		e.look(end)
		return
	}
	var gates []string
	for _, g := range pod.Spec.SchedulingGates {
		gates = append(gates, short(g.Name))
	}
	list := strings.Join(gates, ", ")
	e.add(pod, workload(pod)+list, Cause{
		Code: SchedulingGated, Path: "spec.schedulingGates", Value: list, Since: began,
		Sentence: fmt.Sprintf("Pod %s is held by scheduling gate %s, which its owner has to remove", pod.Name, list),
		Fix:      "Look at the controller that owns the gate.",
	})
}

// schedulerError is a pod that the scheduler could not judge. It tries again by itself, so
// that is only said when it lasts.
func (e *examiner) schedulerError(pod *corev1.Pod, c *corev1.PodCondition, began time.Time) {
	if e.claims(pod) {
		return
	}
	if end := began.Add(minSilence); e.now.Before(end) {
		e.look(end)
		return
	}
	e.add(pod, workload(pod), Cause{
		Code: SchedulerError, Path: `status.conditions[?(@.type=="PodScheduled")]`, Value: reasonWord(c.Reason), Since: began,
		Sentence: fmt.Sprintf("The scheduler met an error with pod %s", pod.Name),
		Fix:      "Look at what the scheduler says: " + lookUp(pod),
		Evidence: evidence(plain(c.Message, maxText)),
	})
}

// together is what all obstacles come to.
func together(pod *corev1.Pod, all []obstacle) obstacle {
	look := "Look at what the scheduler says about each node: " + lookUp(pod)
	switch len(all) {
	case 0:
		return obstacle{code: Unschedulable, whole: fmt.Sprintf("No node takes pod %s", pod.Name), fix: look}
	case 1:
		return all[0]
	}
	words := make([]string, len(all))
	for i, o := range all {
		words[i] = o.words
	}
	list := strings.Join(words, ", ")
	return obstacle{
		code: Unschedulable, value: list, fix: look,
		whole: fmt.Sprintf("No node takes pod %s, for several reasons: %s", pod.Name, list),
	}
}

// obstaclesIn reads the scheduler's message,
//
//	0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu. preemption: ...
//
// without the counts and without what it says about preemption, which only repeats why
// nothing can be moved out of the way.
func obstaclesIn(pod *corev1.Pod, text string) []obstacle {
	_, list, ok := strings.Cut(text, "nodes are available: ")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, ". ")
	list, _, _ = strings.Cut(list, "preemption:")
	var all []obstacle
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.TrimSuffix(list, "."), ",") {
		said := strings.TrimLeft(strings.TrimSpace(part), "0123456789 ")
		if said == "" {
			continue
		}
		if o := obstacleFor(pod, said); !seen[o.words] {
			seen[o.words] = true
			all = append(all, o)
		}
	}
	// The scheduler's own order goes by the counts, and changes with them.
	slices.SortFunc(all, func(a, b obstacle) int { return strings.Compare(a.words, b.words) })
	return all
}

func obstacleFor(pod *corev1.Pod, said string) obstacle {
	if said == "Too many pods" {
		return obstacle{
			code: InsufficientPods, words: "nodes that hold as many pods as they may",
			whole: fmt.Sprintf("No node has room for pod %s: all hold as many pods as they may", pod.Name),
			fix:   "Add a node, or scale something down.",
		}
	}
	if name, ok := strings.CutPrefix(said, "Insufficient "); ok {
		return lacking(pod, corev1.ResourceName(name))
	}
	if found := missingClaim.FindStringSubmatch(said); found != nil {
		return unclaimed(pod, found[1])
	}
	said = strings.ToLower(said)
	for _, o := range obstacles {
		if strings.Contains(said, o.said) {
			return obstacle{
				code: o.code, words: o.words, value: o.words, fix: o.fix,
				whole: fmt.Sprintf("No node takes pod %s because of %s", pod.Name, o.words),
			}
		}
	}
	return obstacle{
		code: Unschedulable, words: "a reason that is not known here",
		whole: fmt.Sprintf("No node takes pod %s", pod.Name),
		fix:   "Look at what the scheduler says about each node: " + lookUp(pod),
	}
}

// missingClaim accepts only what can be the name of a claim.
var missingClaim = regexp.MustCompile(`^persistentvolumeclaim "([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)" not found$`)

// unclaimed is a pod whose claim does not exist: no node is at fault.
func unclaimed(pod *corev1.Pod, claim string) obstacle {
	return obstacle{
		code: MissingClaim, words: "a missing volume claim", value: claim,
		whole: fmt.Sprintf("Pod %s needs PersistentVolumeClaim %q, which does not exist in namespace %s", pod.Name, short(claim), pod.Namespace),
		fix:   fmt.Sprintf("Create PersistentVolumeClaim %q in namespace %s, or correct spec.volumes of the application.", claim, pod.Namespace),
	}
}

// lacking is a resource that no node has enough of. What the pod asks for is in its spec
// and as stable as that; a resource that is not asked for there is not named.
func lacking(pod *corev1.Pod, name corev1.ResourceName) obstacle {
	asked := request(pod, name)
	o, unit := obstacle{code: Insufficient, value: string(name)}, "of a resource"
	switch {
	case name == corev1.ResourceCPU:
		o.code, o.value, unit = InsufficientCPU, asked.String(), "CPU"
	case name == corev1.ResourceMemory:
		o.code, o.value, unit = InsufficientMemory, asked.String(), "memory"
	case !asked.IsZero():
		unit = string(name)
	}
	o.words = "not enough " + unit
	o.whole = fmt.Sprintf("No node has enough %s for pod %s", unit, pod.Name)
	if !asked.IsZero() {
		o.words += fmt.Sprintf(" (%s asked for)", asked.String())
		o.whole += fmt.Sprintf(": it asks for %s %s", asked.String(), unit)
	}
	o.fix = "Lower spec.resources.requests of the application, or add a node that has enough."
	return o
}

// request is what the scheduler reserves for a pod: what its containers need at the same
// time. Init containers run one after the other and before the rest, except for those
// that stay.
func request(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var running, most resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		now := running.DeepCopy()
		now.Add(c.Resources.Requests[name])
		if isSidecar(c) {
			running = now
		}
		most = larger(most, now)
	}
	for i := range pod.Spec.Containers {
		running.Add(pod.Spec.Containers[i].Resources.Requests[name])
	}
	most = larger(most, running)
	if r := pod.Spec.Resources; r != nil {
		if whole, ok := r.Requests[name]; ok {
			most = whole.DeepCopy()
		}
	}
	most.Add(pod.Spec.Overhead[name])
	return most
}

func larger(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}
