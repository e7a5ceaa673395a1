package view

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	Message string
	// Edge is what makes it a child of the node above; empty for a root.
	Edge     Edge
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
		out = append(out, ix.node(obj, nil))
	}
	parts := ix.parts(in, c)
	mounted := map[string]bool{}
	for _, obj := range parts {
		if pod, ok := obj.(*corev1.Pod); ok && ix.edges {
			for _, ref := range usesOf(pod) {
				mounted[ref.Name] = mounted[ref.Name] || ref.Kind == kindClaim
			}
		}
	}
	for _, obj := range parts {
		// A claim that a pod has is shown there.
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && !mounted[claim.Name] {
			out = append(out, ix.claim(claim))
		}
	}
	return out
}

// blame says at objects what is wrong with them, which is more than they say themselves: the
// first cause of each, which is the most important one.
func blame(nodes []Node, causes []explain.Cause) {
	first := map[place]*explain.Cause{}
	for i := range causes {
		c := &causes[i]
		at := place{kind: c.Object.Kind, namespace: c.Object.Namespace, name: c.Object.Name}
		if c.Severity == explain.Error && first[at] == nil {
			first[at] = c
		}
	}
	if len(first) > 0 {
		blameEach(nodes, first)
	}
}

func blameEach(nodes []Node, first map[place]*explain.Cause) {
	for i := range nodes {
		n := &nodes[i]
		if c := first[place{kind: n.Object.Kind, namespace: n.Object.Namespace, name: n.Object.Name}]; c != nil {
			n.Health, n.Message = health.Degraded, c.Sentence
		}
		blameEach(n.Children, first)
	}
}

func nodeOf(obj runtime.Object) Node {
	v := health.Of(obj)
	n := Node{Object: objectOf(obj), Health: v.Status, Message: v.Message}
	if v.Status == health.Healthy {
		n.Message = ""
	}
	return n
}

func objectOf(obj runtime.Object) explain.Object {
	o := obj.(metav1.Object)
	out := explain.Object{Kind: kindOf(obj).Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		out.Group = u.GroupVersionKind().Group
	}
	return out
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
	case *appsv1.DaemonSet:
		return w.Status.NumberReady, w.Status.DesiredNumberScheduled
	case *appsv1.ReplicaSet:
		return w.Status.ReadyReplicas, one(w.Spec.Replicas)
	case *batchv1.Job:
		return min(w.Status.Succeeded, 1), 1
	case *corev1.Pod:
		if health.Of(w).Status == health.Healthy {
			return 1, 1
		}
		return 0, 1
	}
	return 0, 0
}
