package inspect

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

// objectKey is where an object is. Kinds of the same word, the Service of Kubernetes and the one
// of Knative, are told apart by their group.
type objectKey struct{ group, kind, namespace, name string }

func objectKeyOf(obj runtime.Object) objectKey {
	o, gvk := obj.(metav1.Object), gvkOf(obj)
	return objectKey{gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName()}
}

// graph finds objects by what connects them. Nothing in it is looked for by going through all
// of them: an application may have thousands.
type graph struct {
	// includeEdges says whether the tree shows more than who controls whom.
	includeEdges bool
	// byController are objects by the UID of their controller.
	byController  map[types.UID][]runtime.Object
	byUID         map[types.UID]metav1.Object
	byKey         map[objectKey]runtime.Object
	completeKinds map[string]bool
	// missingRefs are ConfigMaps and Secrets that are known not to exist.
	missingRefs map[explain.Ref]bool
	// topWorkloads run pods and are not themselves run by another one.
	topWorkloads labelIndex
	// allPods are the pods; it is filled when somebody selects less than the pods of a workload.
	allPods *labelIndex
	objects []runtime.Object
}

func newGraph(objects []runtime.Object, completeKinds []string, includeEdges bool) graph {
	g := graph{
		includeEdges: includeEdges, objects: objects, byController: map[types.UID][]runtime.Object{}, byUID: make(map[types.UID]metav1.Object, len(objects)),
		completeKinds: map[string]bool{}, missingRefs: map[explain.Ref]bool{}, topWorkloads: labelIndex{},
	}
	for _, kind := range completeKinds {
		g.completeKinds[kind] = true
	}
	if includeEdges {
		g.byKey = make(map[objectKey]runtime.Object, len(objects))
	}
	for _, obj := range objects {
		if o, ok := obj.(metav1.Object); ok {
			g.byUID[o.GetUID()] = o
			if includeEdges {
				g.byKey[objectKeyOf(obj)] = obj
			}
		}
	}
	for _, obj := range objects {
		o, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		uid, hasController := g.controllerUID(o)
		if hasController {
			g.byController[uid] = append(g.byController[uid], obj)
		}
		if owner, _ := g.byUID[uid].(runtime.Object); includeEdges && isWorkload(obj) && (!hasController || !isWorkload(owner)) {
			g.topWorkloads.add(o.GetNamespace(), podTemplateOf(obj).labels, obj)
		}
	}
	return g
}

// controllerUID is who made an object. Who may not read ReplicaSets, or the Jobs of a CronJob,
// still sees what is above them: their names begin with its name.
func (g *graph) controllerUID(o metav1.Object) (types.UID, bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return "", false
	}
	end := strings.LastIndexByte(ref.Name, '-')
	if !g.includeEdges || g.byUID[ref.UID] != nil || g.completeKinds[ref.Kind] || end < 0 {
		return ref.UID, true
	}
	at := objectKey{namespace: o.GetNamespace(), name: ref.Name[:end]}
	switch ref.Kind {
	case "ReplicaSet":
		at.group, at.kind = "apps", "Deployment"
	case "Job":
		at.group, at.kind = "batch", "CronJob"
	}
	if parent, ok := g.byKey[at].(metav1.Object); ok {
		return parent.GetUID(), true
	}
	return ref.UID, true
}

// isControlled says whether another one of the objects made this one.
func (g *graph) isControlled(o metav1.Object) bool {
	uid, ok := g.controllerUID(o)
	return ok && g.byUID[uid] != nil
}

// buildNode is an object with what it controls and, where the tree shows more, what it leads to;
// above are the references that a node above it shows already. Old ReplicaSets without pods
// are left out, and what only controllers read: EndpointSlices, which name nothing but pods,
// and old templates.
func (g *graph) buildNode(obj runtime.Object, shown shownRefs) Node {
	n := newNode(obj)
	if g.includeEdges {
		n.Children, shown = g.linkedNodes(obj, shown)
	}
	for _, below := range g.byController[n.Object.UID] {
		if isHidden(below) {
			continue
		}
		child := g.buildNode(below, shown)
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

// clipSnapshot is a scene to which several can add without writing into each other's.
func clipSnapshot(s explain.Snapshot) explain.Snapshot {
	s.EndpointSlices, s.Nodes, s.Volumes = slices.Clip(s.EndpointSlices), slices.Clip(s.Nodes), slices.Clip(s.Volumes)
	s.StorageClasses, s.IngressClasses, s.Events = slices.Clip(s.StorageClasses), slices.Clip(s.IngressClasses), slices.Clip(s.Events)
	return s
}
