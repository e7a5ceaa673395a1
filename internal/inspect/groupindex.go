package inspect

import (
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// groupIndex finds objects of an unmanaged application.
type groupIndex struct {
	graph
	in GroupInput
	// roots are the objects without a controller in the application.
	roots   []runtime.Object
	members []member
	// memberOf is the member that a workload or a pod belongs to.
	memberOf map[types.UID]int
	// pods are the pods of each workload.
	pods map[types.UID][]*corev1.Pod
	// services and autoscalers are those of each workload, endpoints those of each Service.
	services    map[types.UID][]*corev1.Service
	autoscalers map[types.UID][]*autoscalingv2.HorizontalPodAutoscaler
	endpoints   map[objectKey][]*discoveryv1.EndpointSlice
	// reachedServices are the Services that select a component, mountedClaims the claims of pods.
	reachedServices, mountedClaims map[objectKey]bool
	// shared contains the shared objects of all snapshots.
	shared explain.Snapshot
}

// member is a root that runs pods through these workloads.
type member struct {
	name      string
	root      runtime.Object
	workloads []runtime.Object
}

func newGroupIndex(in GroupInput) *groupIndex {
	in.Objects = uniqueObjects(in.Objects)
	g := &groupIndex{
		graph: newGraph(in.Objects, in.CompleteKinds, true), in: in,
		memberOf: map[types.UID]int{}, pods: map[types.UID][]*corev1.Pod{}, services: map[types.UID][]*corev1.Service{},
		autoscalers: map[types.UID][]*autoscalingv2.HorizontalPodAutoscaler{}, endpoints: map[objectKey][]*discoveryv1.EndpointSlice{},
		reachedServices: map[objectKey]bool{}, mountedClaims: map[objectKey]bool{}, shared: explain.Snapshot{CompleteKinds: in.CompleteKinds, Unmanaged: true},
	}
	for _, obj := range in.Objects {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
			serviceKey := objectKey{"", kindService, slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}
			g.endpoints[serviceKey] = append(g.endpoints[serviceKey], slice)
			continue
		}
		if isShared(obj) {
			g.shared.Add(obj)
		}
		o := obj.(metav1.Object)
		if kind, namespace, name, ok := Membership(o); ok && !g.isControlled(o) && kind == in.Kind && namespace == in.Namespace && name == in.Name {
			g.roots = append(g.roots, obj)
		}
	}
	return g
}

// uniqueObjects drops duplicates and lists.
func uniqueObjects(objects []runtime.Object) []runtime.Object {
	seen := make(map[objectKey]bool, len(objects))
	out := make([]runtime.Object, 0, len(objects))
	for _, obj := range objects {
		if _, ok := obj.(metav1.Object); !ok || seen[objectKeyOf(obj)] {
			continue
		}
		seen[objectKeyOf(obj)] = true
		out = append(out, obj)
	}
	return out
}

// findMembers finds the roots that run pods, and returns the others.
func (g *groupIndex) findMembers() (nonWorkloads []runtime.Object) {
	for _, root := range g.roots {
		if workloads := g.workloadsOf(root); len(workloads) > 0 {
			g.members = append(g.members, member{root: root, workloads: workloads})
			continue
		}
		nonWorkloads = append(nonWorkloads, root)
	}
	g.nameMembers()
	for i, m := range g.members {
		for _, w := range m.workloads {
			g.recordWorkload(i, w.(metav1.Object).GetUID(), w)
		}
	}
	return nonWorkloads
}

// workloadsOf returns an object itself if it is a workload, or else the workloads below it.
func (g *groupIndex) workloadsOf(obj runtime.Object) []runtime.Object {
	if isWorkload(obj) {
		return []runtime.Object{obj}
	}
	var out []runtime.Object
	for _, below := range g.byController[obj.(metav1.Object).GetUID()] {
		out = append(out, g.workloadsOf(below)...)
	}
	slices.SortFunc(out, func(a, b runtime.Object) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return out
}

// recordWorkload records the objects of a workload, down to its pods and their claims.
func (g *groupIndex) recordWorkload(i int, workload types.UID, obj runtime.Object) {
	uid := obj.(metav1.Object).GetUID()
	g.memberOf[uid] = i
	if pod, ok := obj.(*corev1.Pod); ok {
		g.pods[workload] = append(g.pods[workload], pod)
	}
	for _, u := range podReferences(obj) {
		if u.Kind == kindClaim {
			g.mountedClaims[objectKey{"", kindClaim, obj.(metav1.Object).GetNamespace(), u.Name}] = true
		}
	}
	for _, below := range g.byController[uid] {
		g.recordWorkload(i, workload, below)
	}
}

// assignRoots assigns roots such as Services, autoscalers, budgets and Ingresses to the component that
// they target. Roots that target several components, or none, stay unassigned.
func (g *groupIndex) assignRoots(nonWorkloads []runtime.Object) (assigned map[int][]runtime.Object, unassigned []runtime.Object) {
	assigned = map[int][]runtime.Object{}
	for _, obj := range nonWorkloads {
		reached := g.reachedMembers(obj)
		if len(reached) != 1 {
			unassigned = append(unassigned, obj)
			continue
		}
		for i := range reached {
			assigned[i] = append(assigned[i], obj)
		}
	}
	return assigned, unassigned
}

// reachedMembers returns the components that an object targets.
func (g *groupIndex) reachedMembers(obj runtime.Object) map[int]bool {
	var objects []runtime.Object
	found := map[int]bool{}
	switch o := obj.(type) {
	case *corev1.Service:
		objects = g.selectedByService(o)
	case *policyv1.PodDisruptionBudget:
		objects = g.selectedByLabelSelector(o.Namespace, o.Spec.Selector)
	case *autoscalingv2.HorizontalPodAutoscaler:
		if target := g.scaleTarget(o); target != nil {
			objects = append(objects, target)
		}
	case *networkingv1.Ingress, *unstructured.Unstructured:
		for _, n := range g.routeTargets(obj) {
			if s, ok := g.byKey[objectKey{"", kindService, n.Object.Namespace, n.Object.Name}].(*corev1.Service); ok && n.Object.Kind == kindService {
				maps.Copy(found, g.reachedMembers(s))
			}
		}
	}
	for _, x := range objects {
		if i, ok := g.memberOf[x.(metav1.Object).GetUID()]; ok {
			found[i] = true
		}
	}
	return found
}

// connectWorkloads records the Services and autoscalers of each workload.
func (g *groupIndex) connectWorkloads() {
	owner := map[types.UID]types.UID{}
	for workload, pods := range g.pods {
		for _, p := range pods {
			owner[p.UID] = workload
		}
	}
	for _, obj := range g.in.Objects {
		switch o := obj.(type) {
		case *corev1.Service:
			seen := map[types.UID]bool{}
			for _, x := range g.selectedByService(o) {
				uid := x.(metav1.Object).GetUID()
				if workload, isPod := owner[uid]; isPod {
					uid = workload
				}
				if _, isMember := g.memberOf[uid]; isMember && !seen[uid] {
					seen[uid] = true
					g.services[uid] = append(g.services[uid], o)
					g.reachedServices[objectKeyOf(o)] = true
				}
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			if target := g.scaleTarget(o); target != nil {
				uid := target.(metav1.Object).GetUID()
				g.autoscalers[uid] = append(g.autoscalers[uid], o)
			}
		}
	}
}

// workloadSnapshot returns the snapshot for the diagnosis of a workload.
func (g *groupIndex) workloadSnapshot(workload runtime.Object) explain.Snapshot {
	o := workload.(metav1.Object)
	s := g.shared
	s.Workload, s.Pods = workload, g.pods[o.GetUID()]
	s.Services, s.Autoscalers = g.services[o.GetUID()], g.autoscalers[o.GetUID()]
	for _, service := range s.Services {
		s.EndpointSlices = append(s.EndpointSlices, g.endpoints[objectKeyOf(service)]...)
	}
	for _, u := range podReferences(workload) {
		ref := explain.Ref{Kind: u.Kind, Name: u.Name}
		missing := u.inVolume && !u.Optional && u.Kind == kindConfigMap && g.completeKinds[kindConfigMap] && g.byKey[objectKey{"", u.Kind, o.GetNamespace(), u.Name}] == nil
		if missing && !slices.Contains(s.MissingRefs, ref) {
			s.MissingRefs = append(s.MissingRefs, ref)
		}
	}
	seen := map[string]bool{}
	for _, p := range s.Pods {
		for _, u := range podReferences(p) {
			if u.Kind != kindClaim || seen[u.Name] {
				continue
			}
			seen[u.Name] = true
			if claim, ok := g.byKey[objectKey{"", kindClaim, p.Namespace, u.Name}].(*corev1.PersistentVolumeClaim); ok {
				s.Claims = append(s.Claims, claim)
			}
		}
	}
	return s
}

// nonWorkloadSnapshot returns the snapshot of the objects that belong to no workload.
func (g *groupIndex) nonWorkloadSnapshot() explain.Snapshot {
	s := g.shared
	for _, obj := range g.roots {
		switch obj.(type) {
		case *networkingv1.Ingress, *unstructured.Unstructured:
			s.Add(obj)
		}
	}
	for _, obj := range g.in.Objects { // roots can refer to all Services
		if service, ok := obj.(*corev1.Service); ok {
			s.Add(service)
		}
	}
	return s
}
