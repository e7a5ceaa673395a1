package view

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Node is an object of the tree.
type Node struct {
	Object explain.Object
	Health health.Status
	// Message says in one sentence why it is what it is.
	Message  string
	Children []Node
}

// tree is the component from its children down to its pods.
func (ix *index) tree(in Input, c desired.Component) []Node {
	var out []Node
	for _, child := range c.Children {
		obj := ix.children[child.ID]
		if obj == nil {
			if ix.read(child.Kind) && in.App.GetDeletionTimestamp() == nil {
				out = append(out, Node{Object: explain.Object{Kind: child.Kind.Kind, Namespace: in.App.GetNamespace(), Name: child.Name},
					Health: health.Progressing, Message: "does not exist"})
			}
			continue
		}
		out = append(out, ix.node(obj))
	}
	for _, obj := range ix.parts(in, c) {
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			out = append(out, nodeOf(claim))
		}
	}
	return out
}

// blame says at an object what is wrong with it, which is more than it says itself.
func blame(nodes []Node, c explain.Cause) {
	for i := range nodes {
		n := &nodes[i]
		if c.Severity == explain.Error && n.Object.Kind == c.Object.Kind && n.Object.Name == c.Object.Name {
			n.Health, n.Message = health.Degraded, c.Sentence
		}
		blame(n.Children, c)
	}
}

// node is an object with what it controls. Old ReplicaSets without pods are left out, and
// EndpointSlices, which are read only when something is wrong and name nothing but pods.
func (ix *index) node(obj runtime.Object) Node {
	n := nodeOf(obj)
	for _, below := range ix.owned[n.Object.UID] {
		if set, ok := below.(*appsv1.ReplicaSet); ok && set.Status.Replicas == 0 && (set.Spec.Replicas == nil || *set.Spec.Replicas == 0) {
			continue
		}
		if _, ok := below.(*discoveryv1.EndpointSlice); ok {
			continue
		}
		n.Children = append(n.Children, ix.node(below))
	}
	slices.SortFunc(n.Children, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	return n
}

func nodeOf(obj runtime.Object) Node {
	o := obj.(metav1.Object)
	v := health.Of(obj)
	n := Node{
		Object: explain.Object{Kind: kindOf(obj).Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		Health: v.Status, Message: v.Message,
	}
	if v.Status == health.Healthy {
		n.Message = ""
	}
	return n
}

func kindOf(obj runtime.Object) schema.GroupVersionKind {
	return obj.GetObjectKind().GroupVersionKind()
}

// counts are how many pods of a workload are ready, and how many are wanted.
func counts(workload runtime.Object) (ready, wanted int32) {
	one := func(n *int32) int32 {
		if n == nil {
			return 1
		}
		return *n
	}
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return w.Status.ReadyReplicas, one(w.Spec.Replicas)
	case *appsv1.StatefulSet:
		return w.Status.ReadyReplicas, one(w.Spec.Replicas)
	case *batchv1.Job:
		return min(w.Status.Succeeded, 1), 1
	}
	return 0, 0
}
