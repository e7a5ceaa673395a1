package view

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// place is where an object is. Kinds of the same word, the Service of Kubernetes and the one
// of Knative, are told apart by their group.
type place struct{ group, kind, namespace, name string }

func placeOf(obj runtime.Object) place {
	o, gvk := obj.(metav1.Object), kindOf(obj)
	return place{gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName()}
}

// graph finds objects by what connects them. Nothing in it is looked for by going through all
// of them: an application may have thousands.
type graph struct {
	// edges says whether the tree shows more than who controls whom.
	edges bool
	// owned are objects by the UID of their controller.
	owned map[types.UID][]runtime.Object
	known map[types.UID]metav1.Object
	named map[place]runtime.Object
	kinds map[string]bool
	// absent are ConfigMaps and Secrets that are known not to exist.
	absent map[explain.Ref]bool
	// tops run pods and are not themselves run by another one.
	tops selectable
	// all are the pods; it is filled when somebody selects less than the pods of a workload.
	all     *selectable
	objects []runtime.Object
}

func newGraph(objects []runtime.Object, whole []string, edges bool) graph {
	g := graph{
		edges: edges, objects: objects, owned: map[types.UID][]runtime.Object{}, known: make(map[types.UID]metav1.Object, len(objects)),
		kinds: map[string]bool{}, absent: map[explain.Ref]bool{}, tops: selectable{},
	}
	for _, kind := range whole {
		g.kinds[kind] = true
	}
	if edges {
		g.named = make(map[place]runtime.Object, len(objects))
	}
	for _, obj := range objects {
		if o, ok := obj.(metav1.Object); ok {
			g.known[o.GetUID()] = o
			if edges {
				g.named[placeOf(obj)] = obj
			}
		}
	}
	for _, obj := range objects {
		o, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		uid, made := g.controller(o)
		if made {
			g.owned[uid] = append(g.owned[uid], obj)
		}
		if owner, _ := g.known[uid].(runtime.Object); edges && isWorkload(obj) && (!made || !isWorkload(owner)) {
			g.tops.add(o.GetNamespace(), podsOf(obj).labels, obj)
		}
	}
	return g
}

// controller is who made an object. Who may not read ReplicaSets, or the Jobs of a CronJob,
// still sees what is above them: their names begin with its name.
func (g *graph) controller(o metav1.Object) (types.UID, bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return "", false
	}
	end := strings.LastIndexByte(ref.Name, '-')
	if !g.edges || g.known[ref.UID] != nil || g.kinds[ref.Kind] || end < 0 {
		return ref.UID, true
	}
	at := place{namespace: o.GetNamespace(), name: ref.Name[:end]}
	switch ref.Kind {
	case "ReplicaSet":
		at.group, at.kind = "apps", "Deployment"
	case "Job":
		at.group, at.kind = "batch", "CronJob"
	}
	if above, ok := g.named[at].(metav1.Object); ok {
		return above.GetUID(), true
	}
	return ref.UID, true
}

// isMade says whether another one of the objects made this one.
func (g *graph) isMade(o metav1.Object) bool {
	uid, ok := g.controller(o)
	return ok && g.known[uid] != nil
}

// node is an object with what it controls and, where the tree shows more, what it leads to;
// above are the references that a node above it shows already. Old ReplicaSets without pods
// are left out, and what only controllers read: EndpointSlices, which name nothing but pods,
// and old templates.
func (g *graph) node(obj runtime.Object, above refs) Node {
	n := nodeOf(obj)
	if g.edges {
		n.Children, above = g.links(obj, above)
	}
	for _, below := range g.owned[n.Object.UID] {
		if isHidden(below) {
			continue
		}
		child := g.node(below, above)
		child.Edge = EdgeOwner
		n.Children = append(n.Children, child)
	}
	sortNodes(n.Children)
	return n
}

func isHidden(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *appsv1.ReplicaSet:
		return o.Status.Replicas == 0 && (o.Spec.Replicas == nil || *o.Spec.Replicas == 0)
	case *discoveryv1.EndpointSlice, *appsv1.ControllerRevision:
		return true
	}
	return false
}

// edgeOrder is in which order children are shown: what an object has made first.
var edgeOrder = map[Edge]int{"": 0, EdgeOwner: 1, EdgeSelector: 2, EdgeClaim: 3, EdgeReference: 4}

func sortNodes(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(edgeOrder[a.Edge]-edgeOrder[b.Edge], cmp.Compare(a.Object.Kind, b.Object.Kind),
			cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Object.Namespace, b.Object.Namespace))
	})
}

// clipped is a scene to which several can add without writing into each other's.
func clipped(s explain.Scene) explain.Scene {
	s.Slices, s.Nodes, s.Volumes = slices.Clip(s.Slices), slices.Clip(s.Nodes), slices.Clip(s.Volumes)
	s.Classes, s.IngressClasses, s.Events = slices.Clip(s.Classes), slices.Clip(s.IngressClasses), slices.Clip(s.Events)
	return s
}
