package view

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

// group finds objects of an application that is not ours.
type group struct {
	graph
	in GroupInput
	// roots are the objects that nothing else of it made, each once.
	roots   []runtime.Object
	members []member
	// of is the member that a workload or a pod belongs to.
	of map[types.UID]int
	// pods are those of each workload.
	pods map[types.UID][]*corev1.Pod
	// services, autoscalers lead to each workload, endpoints is whom each Service found.
	services    map[types.UID][]*corev1.Service
	autoscalers map[types.UID][]*autoscalingv2.HorizontalPodAutoscaler
	endpoints   map[place][]*discoveryv1.EndpointSlice
	// reached are the Services that lead to a component, mounted the claims that pods have.
	reached, mounted map[place]bool
	// around is the scene of everything: what belongs to nobody.
	around explain.Scene
}

// member is a root that runs pods, through these workloads.
type member struct {
	name      string
	root      runtime.Object
	workloads []runtime.Object
}

func newGroup(in GroupInput) *group {
	in.Objects = unique(in.Objects)
	g := &group{
		graph: newGraph(in.Objects, in.Whole, true), in: in,
		of: map[types.UID]int{}, pods: map[types.UID][]*corev1.Pod{}, services: map[types.UID][]*corev1.Service{},
		autoscalers: map[types.UID][]*autoscalingv2.HorizontalPodAutoscaler{}, endpoints: map[place][]*discoveryv1.EndpointSlice{},
		reached: map[place]bool{}, mounted: map[place]bool{}, around: explain.Scene{Whole: in.Whole, Foreign: true},
	}
	for _, obj := range in.Objects {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
			at := place{"", kindService, slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}
			g.endpoints[at] = append(g.endpoints[at], slice)
			continue
		}
		if isShared(obj) {
			g.around.Add(obj)
		}
		o := obj.(metav1.Object)
		if kind, namespace, name, ok := Membership(o); ok && !g.isMade(o) && kind == in.Kind && namespace == in.Namespace && name == in.Name {
			g.roots = append(g.roots, obj)
		}
	}
	return g
}

// unique leaves out what is there twice, and what is no object.
func unique(objects []runtime.Object) []runtime.Object {
	seen := make(map[place]bool, len(objects))
	out := make([]runtime.Object, 0, len(objects))
	for _, obj := range objects {
		if _, ok := obj.(metav1.Object); !ok || seen[placeOf(obj)] {
			continue
		}
		seen[placeOf(obj)] = true
		out = append(out, obj)
	}
	return out
}

// components finds the roots that run pods, and returns the others.
func (g *group) components() (others []runtime.Object) {
	for _, root := range g.roots {
		if workloads := g.workloads(root); len(workloads) > 0 {
			g.members = append(g.members, member{root: root, workloads: workloads})
			continue
		}
		others = append(others, root)
	}
	g.name()
	for i, m := range g.members {
		for _, w := range m.workloads {
			g.run(i, w.(metav1.Object).GetUID(), w)
		}
	}
	return others
}

// workloads are an object itself, if it runs pods, or else those that were made of it.
func (g *group) workloads(obj runtime.Object) []runtime.Object {
	if isWorkload(obj) {
		return []runtime.Object{obj}
	}
	var out []runtime.Object
	for _, below := range g.owned[obj.(metav1.Object).GetUID()] {
		out = append(out, g.workloads(below)...)
	}
	slices.SortFunc(out, func(a, b runtime.Object) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return out
}

// run notes what a workload runs, down to its pods and their claims.
func (g *group) run(i int, workload types.UID, obj runtime.Object) {
	uid := obj.(metav1.Object).GetUID()
	g.of[uid] = i
	if pod, ok := obj.(*corev1.Pod); ok {
		g.pods[workload] = append(g.pods[workload], pod)
	}
	for _, u := range usesOf(obj) {
		if u.Kind == kindClaim {
			g.mounted[place{"", kindClaim, obj.(metav1.Object).GetNamespace(), u.Name}] = true
		}
	}
	for _, below := range g.owned[uid] {
		g.run(i, workload, below)
	}
}

// spread gives each component the roots that lead to it alone: its Services, its autoscaler,
// its budget, its Ingress. What leads to several components, or to none, is of the rest.
func (g *group) spread(others []runtime.Object) (placed map[int][]runtime.Object, rest []runtime.Object) {
	placed = map[int][]runtime.Object{}
	for _, obj := range others {
		found := g.reaches(obj)
		if len(found) != 1 {
			rest = append(rest, obj)
			continue
		}
		for i := range found {
			placed[i] = append(placed[i], obj)
		}
	}
	return placed, rest
}

// reaches are the components that an object leads to.
func (g *group) reaches(obj runtime.Object) map[int]bool {
	var objects []runtime.Object
	found := map[int]bool{}
	switch o := obj.(type) {
	case *corev1.Service:
		objects = g.selectedByService(o)
	case *policyv1.PodDisruptionBudget:
		objects = g.selectedBy(o.Namespace, o.Spec.Selector)
	case *autoscalingv2.HorizontalPodAutoscaler:
		if target := g.scaled(o); target != nil {
			objects = append(objects, target)
		}
	case *networkingv1.Ingress, *unstructured.Unstructured:
		for _, n := range g.routes(obj) {
			if s, ok := g.named[place{"", kindService, n.Object.Namespace, n.Object.Name}].(*corev1.Service); ok && n.Object.Kind == kindService {
				maps.Copy(found, g.reaches(s))
			}
		}
	}
	for _, x := range objects {
		if i, ok := g.of[x.(metav1.Object).GetUID()]; ok {
			found[i] = true
		}
	}
	return found
}

// connect notes who leads to each workload.
func (g *group) connect() {
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
				if _, ours := g.of[uid]; ours && !seen[uid] {
					seen[uid] = true
					g.services[uid] = append(g.services[uid], o)
					g.reached[placeOf(o)] = true
				}
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			if target := g.scaled(o); target != nil {
				uid := target.(metav1.Object).GetUID()
				g.autoscalers[uid] = append(g.autoscalers[uid], o)
			}
		}
	}
}

// scene is what there is to say about a workload.
func (g *group) scene(workload runtime.Object) explain.Scene {
	o := workload.(metav1.Object)
	s := g.around
	s.Workload, s.Pods = workload, g.pods[o.GetUID()]
	s.Services, s.Autoscalers = g.services[o.GetUID()], g.autoscalers[o.GetUID()]
	for _, service := range s.Services {
		s.Slices = append(s.Slices, g.endpoints[placeOf(service)]...)
	}
	for _, u := range usesOf(workload) {
		ref := explain.Ref{Kind: u.Kind, Name: u.Name}
		missing := u.volume && !u.Optional && u.Kind == kindConfigMap && g.kinds[kindConfigMap] && g.named[place{"", u.Kind, o.GetNamespace(), u.Name}] == nil
		if missing && !slices.Contains(s.Absent, ref) {
			s.Absent = append(s.Absent, ref)
		}
	}
	seen := map[string]bool{}
	for _, p := range s.Pods {
		for _, u := range usesOf(p) {
			if u.Kind != kindClaim || seen[u.Name] {
				continue
			}
			seen[u.Name] = true
			if claim, ok := g.named[place{"", kindClaim, p.Namespace, u.Name}].(*corev1.PersistentVolumeClaim); ok {
				s.Claims = append(s.Claims, claim)
			}
		}
	}
	return s
}

// outside are the scenes of what belongs to no workload, one for each namespace.
func (g *group) outside() []explain.Scene {
	scenes := map[string]*explain.Scene{}
	at := func(obj runtime.Object) *explain.Scene {
		namespace := obj.(metav1.Object).GetNamespace()
		if scenes[namespace] == nil {
			s := g.around
			scenes[namespace] = &s
		}
		return scenes[namespace]
	}
	for _, obj := range g.roots {
		switch obj.(type) {
		case *networkingv1.Ingress, *unstructured.Unstructured:
			at(obj).Add(obj)
		case *corev1.Service:
			at(obj) // it is added below
		}
	}
	for _, obj := range g.in.Objects {
		// Only where one of the roots may lead to it.
		if s, ok := obj.(*corev1.Service); ok && scenes[s.Namespace] != nil {
			scenes[s.Namespace].Add(s)
		}
	}
	var out []explain.Scene
	for _, namespace := range slices.Sorted(maps.Keys(scenes)) {
		out = append(out, *scenes[namespace])
	}
	return out
}
