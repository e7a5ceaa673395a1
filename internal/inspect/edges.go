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

// Edge is what makes an object a child of another one in the tree. Only an owner has the
// child with everything below it; the others lead to an object that has its own place.
type Edge string

// From what is made to what is only named.
const (
	EdgeOwner     Edge = "owner"
	EdgeSelector  Edge = "selector"
	EdgeClaim     Edge = "claim"
	EdgeReference Edge = "reference"
)

// The kinds that pods are configured by.
const (
	kindConfigMap = "ConfigMap"
	kindSecret    = "Secret"
	kindClaim     = "PersistentVolumeClaim"
	kindService   = "Service"
)

// clusterCAConfigMap is in every namespace, and in every pod that has a token: it tells nothing about
// any of them.
const clusterCAConfigMap = "kube-root-ca.crt"

// shownRefs are references, and whether each is optional.
type shownRefs map[explain.Ref]bool

// podReferences are the ConfigMaps, Secrets and claims that the pods of an object use.
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

// linkedNodes are the nodes that an object leads to, beside those that it controls, and what is
// shown for everything below it then.
//
// What the pods of a workload use is shown at the workload, as its template says it: a
// thousand pods would say it a thousand times. Below a pod is only what its template does not
// know, the claim of a StatefulSet's pod for example, and what pods of an earlier template
// still use is at their ReplicaSet.
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

// commonPodReferences is what all pods that an object controls use, whatever its template says: somebody
// put it into each of them on the way. Claims are the pod's own then.
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

// targetNodes are whom an object that has no pods leads to.
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

// scaleTarget is what an autoscaler scales.
func (g *graph) scaleTarget(a *autoscalingv2.HorizontalPodAutoscaler) runtime.Object {
	t := a.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return nil
	}
	return g.byKey[objectKey{gv.Group, t.Kind, a.Namespace, t.Name}]
}

// routeTargets are the Services that an Ingress or a route leads to, and its certificates.
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

// leafNodes are objects that have their own place in a tree, so nothing is below them here.
func leafNodes(objects []runtime.Object, edge Edge) []Node {
	out := make([]Node, 0, len(objects))
	for _, obj := range objects {
		n := newNode(obj)
		n.Edge = edge
		out = append(out, n)
	}
	return out
}

// referenceNode is the node of something that is referred to by name. What is not among the
// objects is missing only if all of its kind are there; nothing is shown of what is not there
// and need not be. Secrets are never among them: nothing is known about them but who names
// them.
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

// claimNode is a claim with its volume.
func (g *graph) claimNode(c *corev1.PersistentVolumeClaim) Node {
	n := newNode(c)
	if volume := g.byKey[objectKey{"", "PersistentVolume", "", c.Spec.VolumeName}]; volume != nil {
		n.Children = leafNodes([]runtime.Object{volume}, EdgeReference)
	}
	return n
}
