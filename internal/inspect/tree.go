package inspect

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
	Object explain.ObjectRef
	Health health.Status
	// Message is one sentence that explains the health.
	Message string
	// Edge is the relation to the parent node; empty for a root.
	Edge     Edge
	Children []Node
}

// buildTree returns the objects of a component, from its children down to its pods.
func (ix *appIndex) buildTree(in Input, c desired.Component) []Node {
	var out []Node
	for _, child := range c.Children {
		obj := ix.children[child.ID]
		if obj == nil {
			if ix.wasRead(child.Kind) && in.App.GetDeletionTimestamp() == nil {
				out = append(out, Node{Object: explain.ObjectRef{Kind: child.Kind.Kind, Namespace: in.App.GetNamespace(), Name: child.Name},
					Health: health.Progressing, Message: "does not exist"})
			}
			continue
		}
		out = append(out, ix.buildNode(obj, nil))
	}
	componentObjects := ix.componentObjects(in, c)
	mounted := map[string]bool{}
	for _, obj := range componentObjects {
		if pod, ok := obj.(*corev1.Pod); ok && ix.includeEdges {
			for _, ref := range podReferences(pod) {
				mounted[ref.Name] = mounted[ref.Name] || ref.Kind == kindClaim
			}
		}
	}
	for _, obj := range componentObjects {
		// A claim that a pod uses is shown below the pod.
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok && !mounted[claim.Name] {
			out = append(out, ix.claimNode(claim))
		}
	}
	return out
}

// annotateCauses sets the message of each object with a cause to its first, most important cause, which
// is more specific than the health message.
func annotateCauses(nodes []Node, causes []explain.Cause) {
	first := map[objectKey]*explain.Cause{}
	for i := range causes {
		c := &causes[i]
		at := objectKey{kind: c.Object.Kind, namespace: c.Object.Namespace, name: c.Object.Name}
		if c.Severity == explain.Error && first[at] == nil {
			first[at] = c
		}
	}
	if len(first) > 0 {
		annotateNodes(nodes, first)
	}
}

func annotateNodes(nodes []Node, first map[objectKey]*explain.Cause) {
	for i := range nodes {
		n := &nodes[i]
		if c := first[objectKey{kind: n.Object.Kind, namespace: n.Object.Namespace, name: n.Object.Name}]; c != nil {
			n.Health, n.Message = health.Degraded, c.Message
		}
		annotateNodes(n.Children, first)
	}
}

func newNode(obj runtime.Object) Node {
	v := health.Evaluate(obj)
	n := Node{Object: newObjectRef(obj), Health: v.Status, Message: v.Message}
	if v.Status == health.Healthy {
		n.Message = ""
	}
	return n
}

func newObjectRef(obj runtime.Object) explain.ObjectRef {
	o := obj.(metav1.Object)
	out := explain.ObjectRef{Kind: gvkOf(obj).Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		out.Group = u.GroupVersionKind().Group
	}
	return out
}

func gvkOf(obj runtime.Object) schema.GroupVersionKind {
	return obj.GetObjectKind().GroupVersionKind()
}

// replicaCounts returns the number of ready and desired pods of a workload.
func replicaCounts(workload runtime.Object) (ready, desiredPods int32) {
	valueOrOne := func(n *int32) int32 {
		if n == nil {
			return 1
		}
		return *n
	}
	switch w := workload.(type) {
	case *appsv1.Deployment:
		return w.Status.ReadyReplicas, valueOrOne(w.Spec.Replicas)
	case *appsv1.StatefulSet:
		return w.Status.ReadyReplicas, valueOrOne(w.Spec.Replicas)
	case *appsv1.DaemonSet:
		return w.Status.NumberReady, w.Status.DesiredNumberScheduled
	case *appsv1.ReplicaSet:
		return w.Status.ReadyReplicas, valueOrOne(w.Spec.Replicas)
	case *batchv1.Job:
		return min(w.Status.Succeeded, 1), 1
	case *corev1.Pod:
		if health.Evaluate(w).Status == health.Healthy {
			return 1, 1
		}
		return 0, 1
	}
	return 0, 0
}
