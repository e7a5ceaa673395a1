package inspect

import (
	"maps"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Edge is the relation of a node to its parent in the tree. Only an owner shows the child with its
// subtree; the others link to an object that has its own place.
type Edge string

// Edges, from the strongest to the weakest relation.
const (
	EdgeOwner     Edge = "owner"
	EdgeSelector  Edge = "selector"
	EdgeClaim     Edge = "claim"
	EdgeReference Edge = "reference"
)

// Kinds that pods and routes refer to.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindClaim     = "PersistentVolumeClaim"
	kindService   = "Service"
)

// clusterCAConfigMap is in every namespace and mounted in every pod with a token, so it is not shown.
const clusterCAConfigMap = "kube-root-ca.crt"

// shownRefs maps references to whether they are optional.
type shownRefs map[explain.Ref]bool

// podReferences returns the ConfigMaps, Secrets and claims that the pods of an object use.
func podReferences(obj runtime.Object) []podReference {
	p := podTemplateOf(obj)
	if p == nil {
		return nil
	}
	var c refCollector
	c.addPodSpec(p)
	out := c.references[:0]
	for _, u := range c.references {
		switch u.Kind {
		case kindConfigMap, kindSecret, kindClaim:
			if u.Name != clusterCAConfigMap {
				out = append(out, u)
			}
		}
	}
	return out
}

// linkedNodes returns the nodes that an object refers to, except for those that it controls, and the
// references that are already shown for all nodes below it.
//
// References of pods are shown at the workload, because they are the same for all its pods. Below a pod
// are only references that are not in the template, for example the claim of a StatefulSet pod.
// References of an earlier template are shown at its ReplicaSet.
func (g *graph) linkedNodes(obj runtime.Object, shownAbove shownRefs) ([]Node, shownRefs) {
	here := shownRefs{}
	addRef := func(u podReference) {
		ref := explain.Ref{Kind: u.Kind, Name: u.Name}
		if _, shown := shownAbove[ref]; shown {
			return
		}
		optional, seenHere := here[ref]
		here[ref] = u.Optional && (optional || !seenHere)
	}
	for _, u := range podReferences(obj) {
		addRef(u)
	}
	for _, u := range g.commonPodReferences(obj) {
		addRef(u)
	}
	namespace := obj.(metav1.Object).GetNamespace()
	var out []Node
	for ref, optional := range here {
		if n, ok := g.referenceNode(namespace, ref, optional); ok {
			out = append(out, n)
		}
	}
	out = append(out, g.targetNodes(obj)...)
	if _, isPod := obj.(*corev1.Pod); !isPod && len(here) > 0 {
		maps.Copy(here, shownAbove)
		shownAbove = here
	}
	return out, shownAbove
}

// commonPodReferences returns the references that all pods of an object have but its template does not,
// for example injected by a webhook. Claims are shown at the pods.
func (g *graph) commonPodReferences(obj runtime.Object) []podReference {
	counts, first, podCount := map[podReference]int{}, []podReference(nil), 0
	for _, below := range g.byController[obj.(metav1.Object).GetUID()] {
		pod, ok := below.(*corev1.Pod)
		if !ok {
			continue
		}
		seen := podReferences(pod)
		if podCount++; podCount == 1 {
			first = seen
		}
		for i, u := range seen {
			if u.Kind != kindClaim && !slices.Contains(seen[:i], u) {
				counts[u]++
			}
		}
	}
	var out []podReference
	for _, u := range first {
		if counts[u] == podCount {
			out = append(out, u)
		}
	}
	return out
}

// targetNodes returns the nodes that an object without pods targets.
func (g *graph) targetNodes(obj runtime.Object) []Node {
	switch o := obj.(type) {
	case *corev1.Service:
		return leafNodes(g.selectedByService(o), EdgeSelector)
	case *policyv1.PodDisruptionBudget:
		return leafNodes(g.selectedByLabelSelector(o.Namespace, o.Spec.Selector), EdgeSelector)
	case *autoscalingv2.HorizontalPodAutoscaler:
		if target := g.scaleTarget(o); target != nil {
			return leafNodes([]runtime.Object{target}, EdgeReference)
		}
	case *networkingv1.Ingress, *unstructured.Unstructured:
		return g.routeTargets(obj)
	}
	return nil
}

// scaleTarget returns the object that an autoscaler scales.
func (g *graph) scaleTarget(a *autoscalingv2.HorizontalPodAutoscaler) runtime.Object {
	t := a.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return nil
	}
	return g.byKey[objectKey{gv.Group, t.Kind, a.Namespace, t.Name}]
}

// routeTargets returns the backend Services of an Ingress or route, and its TLS Secrets.
func (g *graph) routeTargets(obj runtime.Object) []Node {
	var c refCollector
	switch o := obj.(type) {
	case *networkingv1.Ingress:
		c.addIngress(o)
	case *unstructured.Unstructured:
		if o.GetKind() == "HTTPRoute" {
			c.addHTTPRoute(o)
		}
	}
	var out []Node
	for _, ref := range c.uniqueRefs() {
		if ref.Kind == kindService || ref.Kind == kindSecret {
			n, _ := g.referenceNode(obj.(metav1.Object).GetNamespace(), explain.Ref{Kind: ref.Kind, Name: ref.Name}, false)
			out = append(out, n)
		}
	}
	return out
}

// leafNodes returns nodes without children for objects that have their own place in the tree.
func leafNodes(objects []runtime.Object, edge Edge) []Node {
	out := make([]Node, 0, len(objects))
	for _, obj := range objects {
		n := newNode(obj)
		n.Edge = edge
		out = append(out, n)
	}
	return out
}

// referenceNode returns the node of a referenced object. An object that is not in the graph is missing
// only if its kind is complete; missing optional objects are not shown. Secrets are never read, so only
// the references to them are known.
func (g *graph) referenceNode(namespace string, ref explain.Ref, optional bool) (Node, bool) {
	edge := EdgeReference
	if ref.Kind == kindClaim {
		edge = EdgeClaim
	}
	n := Node{Object: explain.ObjectRef{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}, Health: health.Unknown, Edge: edge}
	var obj runtime.Object
	if ref.Kind != kindSecret {
		obj = g.byKey[objectKey{"", ref.Kind, namespace, ref.Name}]
	}
	switch claim, isClaim := obj.(*corev1.PersistentVolumeClaim); {
	case isClaim:
		n = g.claimNode(claim)
		n.Edge = edge
	case obj != nil:
		n = newNode(obj)
		n.Edge = edge
	case g.missingRefs[ref] || g.completeKinds[ref.Kind] && ref.Kind != kindSecret:
		n.Health, n.Message = health.Degraded, "does not exist"
		return n, !optional
	}
	return n, true
}

// claimNode returns the node of a claim with its volume.
func (g *graph) claimNode(c *corev1.PersistentVolumeClaim) Node {
	n := newNode(c)
	if volume := g.byKey[objectKey{"", "PersistentVolume", "", c.Spec.VolumeName}]; volume != nil {
		n.Children = leafNodes([]runtime.Object{volume}, EdgeReference)
	}
	return n
}
