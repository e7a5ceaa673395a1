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

// objectKey identifies an object. The group distinguishes kinds of the same name, for example Service of
// Kubernetes and of Knative.
type objectKey struct{ group, kind, namespace, name string }

func objectKeyOf(obj runtime.Object) objectKey {
	o, gvk := obj.(metav1.Object), gvkOf(obj)
	return objectKey{gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName()}
}

// graph indexes objects by their relations: an application can have thousands of objects.
type graph struct {
	// includeEdges adds relations other than controllers to the tree.
	includeEdges bool
	// byController are objects by the UID of their controller.
	byController  map[types.UID][]runtime.Object
	byUID         map[types.UID]metav1.Object
	byKey         map[objectKey]runtime.Object
	completeKinds map[string]bool
	// missingRefs are referenced ConfigMaps and Secrets that do not exist.
	missingRefs map[explain.Ref]bool
	// topWorkloads are workloads that no other workload controls.
	topWorkloads labelIndex
	// allPods are all pods; filled when a selector matches no workload.
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

// controllerUID returns the UID of the controller of an object. If ReplicaSets, or the Jobs of a CronJob,
// cannot be read, it finds their parent by its name, which is the prefix of their names.
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

// isControlled reports whether the controller of an object is in the graph.
func (g *graph) isControlled(o metav1.Object) bool {
	uid, ok := g.controllerUID(o)
	return ok && g.byUID[uid] != nil
}

// buildNode returns the node of an object with the objects that it controls and, with includeEdges, the
// objects that it refers to. shown are references that a node above already shows. Old ReplicaSets
// without pods, EndpointSlices and ControllerRevisions are hidden.
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

// edgeOrder sorts children: controlled objects first.
var edgeOrder = map[Edge]int{"": 0, EdgeOwner: 1, EdgeSelector: 2, EdgeClaim: 3, EdgeReference: 4}

func sortNodes(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(edgeOrder[a.Edge]-edgeOrder[b.Edge], cmp.Compare(a.Object.Kind, b.Object.Kind),
			cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.Object.Namespace, b.Object.Namespace))
	})
}

// clipSnapshot clips the slices of a snapshot, so that copies can append without sharing memory.
func clipSnapshot(s explain.Snapshot) explain.Snapshot {
	s.EndpointSlices, s.Nodes, s.Volumes = slices.Clip(s.EndpointSlices), slices.Clip(s.Nodes), slices.Clip(s.Volumes)
	s.StorageClasses, s.IngressClasses, s.Events = slices.Clip(s.StorageClasses), slices.Clip(s.IngressClasses), slices.Clip(s.Events)
	return s
}
