package view

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

// clusterCA is in every namespace, and in every pod that has a token: it tells nothing about
// any of them.
const clusterCA = "kube-root-ca.crt"

// refs are references, and whether each is optional.
type refs map[explain.Ref]bool

// usesOf are the ConfigMaps, Secrets and claims that the pods of an object use.
func usesOf(obj runtime.Object) []use {
	p := podsOf(obj)
	if p == nil {
		return nil
	}
	var c collector
	c.pod(p)
	kept := c.uses[:0]
	for _, u := range c.uses {
		switch u.Kind {
		case kindConfigMap, kindSecret, kindClaim:
			if u.Name != clusterCA {
				kept = append(kept, u)
			}
		}
	}
	return kept
}

// links are the nodes that an object leads to, beside those that it controls, and what is
// shown for everything below it then.
//
// What the pods of a workload use is shown at the workload, as its template says it: a
// thousand pods would say it a thousand times. Below a pod is only what its template does not
// know, the claim of a StatefulSet's pod for example, and what pods of an earlier template
// still use is at their ReplicaSet.
func (g *graph) links(obj runtime.Object, above refs) ([]Node, refs) {
	here := refs{}
	note := func(u use) {
		ref := explain.Ref{Kind: u.Kind, Name: u.Name}
		if _, shown := above[ref]; shown {
			return
		}
		optional, again := here[ref]
		here[ref] = u.Optional && (optional || !again)
	}
	for _, u := range usesOf(obj) {
		note(u)
	}
	for _, u := range g.common(obj) {
		note(u)
	}
	namespace := obj.(metav1.Object).GetNamespace()
	var out []Node
	for ref, optional := range here {
		if n, ok := g.reference(namespace, ref, optional); ok {
			out = append(out, n)
		}
	}
	out = append(out, g.targets(obj)...)
	if _, isPod := obj.(*corev1.Pod); !isPod && len(here) > 0 {
		maps.Copy(here, above)
		above = here
	}
	return out, above
}

// common is what all pods that an object controls use, whatever its template says: somebody
// put it into each of them on the way. Claims are the pod's own then.
func (g *graph) common(obj runtime.Object) []use {
	counts, first, all := map[use]int{}, []use(nil), 0
	for _, below := range g.owned[obj.(metav1.Object).GetUID()] {
		pod, ok := below.(*corev1.Pod)
		if !ok {
			continue
		}
		seen := usesOf(pod)
		if all++; all == 1 {
			first = seen
		}
		for i, u := range seen {
			if u.Kind != kindClaim && !slices.Contains(seen[:i], u) {
				counts[u]++
			}
		}
	}
	var out []use
	for _, u := range first {
		if counts[u] == all {
			out = append(out, u)
		}
	}
	return out
}

// targets are whom an object that has no pods leads to.
func (g *graph) targets(obj runtime.Object) []Node {
	switch o := obj.(type) {
	case *corev1.Service:
		return leaves(g.selectedByService(o), EdgeSelector)
	case *policyv1.PodDisruptionBudget:
		return leaves(g.selectedBy(o.Namespace, o.Spec.Selector), EdgeSelector)
	case *autoscalingv2.HorizontalPodAutoscaler:
		if target := g.scaled(o); target != nil {
			return leaves([]runtime.Object{target}, EdgeReference)
		}
	case *networkingv1.Ingress, *unstructured.Unstructured:
		return g.routes(obj)
	}
	return nil
}

// scaled is what an autoscaler scales.
func (g *graph) scaled(a *autoscalingv2.HorizontalPodAutoscaler) runtime.Object {
	t := a.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return nil
	}
	return g.named[place{gv.Group, t.Kind, a.Namespace, t.Name}]
}

// routes are the Services that an Ingress or a route leads to, and its certificates.
func (g *graph) routes(obj runtime.Object) []Node {
	var c collector
	switch o := obj.(type) {
	case *networkingv1.Ingress:
		c.ingress(o)
	case *unstructured.Unstructured:
		if o.GetKind() == "HTTPRoute" {
			c.route(o)
		}
	}
	var out []Node
	for _, ref := range c.refs() {
		if ref.Kind == kindService || ref.Kind == kindSecret {
			n, _ := g.reference(obj.(metav1.Object).GetNamespace(), explain.Ref{Kind: ref.Kind, Name: ref.Name}, false)
			out = append(out, n)
		}
	}
	return out
}

// leaves are objects that have their own place in a tree, so nothing is below them here.
func leaves(objects []runtime.Object, edge Edge) []Node {
	out := make([]Node, 0, len(objects))
	for _, obj := range objects {
		n := nodeOf(obj)
		n.Edge = edge
		out = append(out, n)
	}
	return out
}

// reference is the node of something that is referred to by name. What is not among the
// objects is missing only if all of its kind are there; nothing is shown of what is not there
// and need not be. Secrets are never among them: nothing is known about them but who names
// them.
func (g *graph) reference(namespace string, ref explain.Ref, optional bool) (Node, bool) {
	edge := EdgeReference
	if ref.Kind == kindClaim {
		edge = EdgeClaim
	}
	n := Node{Object: explain.Object{Kind: ref.Kind, Namespace: namespace, Name: ref.Name}, Health: health.Unknown, Edge: edge}
	var obj runtime.Object
	if ref.Kind != kindSecret {
		obj = g.named[place{"", ref.Kind, namespace, ref.Name}]
	}
	switch claim, isClaim := obj.(*corev1.PersistentVolumeClaim); {
	case isClaim:
		n = g.claim(claim)
		n.Edge = edge
	case obj != nil:
		n = nodeOf(obj)
		n.Edge = edge
	case g.absent[ref] || g.kinds[ref.Kind] && ref.Kind != kindSecret:
		n.Health, n.Message = health.Degraded, "does not exist"
		return n, !optional
	}
	return n, true
}

// claim is a claim with its volume.
func (g *graph) claim(c *corev1.PersistentVolumeClaim) Node {
	n := nodeOf(c)
	if volume := g.named[place{"", "PersistentVolume", "", c.Spec.VolumeName}]; volume != nil {
		n.Children = leaves([]runtime.Object{volume}, EdgeReference)
	}
	return n
}
