package inspect

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// appIndex finds objects of an application of ours.
type appIndex struct {
	graph
	children map[desired.ID]runtime.Object
	// byWorkload says which objects are of a component, by the label of its workload.
	byWorkload map[string][]runtime.Object
	// shared is the scene of every component: what belongs to none.
	shared explain.Snapshot
}

func newAppIndex(in Input) *appIndex {
	ix := &appIndex{
		graph:    newGraph(in.Objects, in.CompleteKinds, in.IncludeEdges),
		children: map[desired.ID]runtime.Object{}, byWorkload: map[string][]runtime.Object{}, shared: explain.Snapshot{CompleteKinds: in.CompleteKinds},
	}
	for _, refs := range in.MissingRefs {
		for _, ref := range refs {
			ix.missingRefs[ref] = true
		}
	}
	desiredIDs := map[desired.ID]bool{}
	for _, c := range in.Components {
		for _, child := range c.Children {
			desiredIDs[child.ID] = true
		}
	}
	for _, obj := range in.Objects {
		o, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		id := desired.ID{Kind: gvkOf(obj), Name: o.GetName()}
		switch workload := o.GetLabels()[appsapi.LabelWorkload]; {
		case desiredIDs[id]:
			if isOwnedByApp(in, o) { // a name may be somebody else's
				ix.children[id] = obj
			}
		case workload != "":
			ix.byWorkload[workload] = append(ix.byWorkload[workload], obj)
		case isShared(obj):
			ix.shared.Add(obj)
		}
	}
	ix.shared = clipSnapshot(ix.shared)
	return ix
}

// isShared says whether an object is around all components. What is left of a component that
// was removed is not: its Service would be held against the pods of the others.
func isShared(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.Node, *corev1.PersistentVolume, *corev1.Event, *storagev1.StorageClass, *networkingv1.IngressClass, *discoveryv1.EndpointSlice:
		return true
	}
	return false
}

// wasRead says whether the objects of a kind were read.
func (ix *appIndex) wasRead(kind schema.GroupVersionKind) bool { return ix.completeKinds[kind.Kind] }

// snapshot is what there is to say about a component.
func (ix *appIndex) snapshot(in Input, c desired.Component) explain.Snapshot {
	s := ix.shared
	s.MissingRefs = in.MissingRefs[c.Name]
	for _, child := range c.Children {
		if obj := ix.children[child.ID]; obj != nil {
			s.Add(obj)
		}
	}
	for _, obj := range ix.componentObjects(in, c) {
		s.Add(obj)
	}
	return s
}

// isOwnedByApp says whether a child is the application's: it controls it, or nobody does and the
// label is there still.
func isOwnedByApp(in Input, o metav1.Object) bool {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID == in.App.GetUID()
	}
	return o.GetLabels()[appsapi.LabelOwnerUID] == string(in.App.GetUID())
}

// componentObjects are the pods and claims of a component, and whom its Services lead to. The label of
// its workload finds them; where another application got a name first it finds that one's,
// too, and those are left out.
func (ix *appIndex) componentObjects(in Input, c desired.Component) []runtime.Object {
	var out []runtime.Object
	for _, obj := range ix.byWorkload[c.WorkloadID] {
		switch o := obj.(type) {
		case *corev1.Pod:
			if ix.ownsPod(in, c, o) {
				out = append(out, obj)
			}
		case *corev1.PersistentVolumeClaim:
			// Claims that are new do not say whose they are, those of an earlier application of
			// the same name have its UID.
			if kind := o.Labels[appsapi.LabelOwnerKind]; kind == "" || kind == in.Kind {
				out = append(out, obj)
			}
		case *discoveryv1.EndpointSlice:
			out = append(out, obj)
		}
	}
	return out
}

// ownsPod says whether the workload of a component controls a pod.
func (ix *appIndex) ownsPod(in Input, c desired.Component, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true // its workload is made anew around it
	}
	workload, ok := ix.children[c.Workload].(metav1.Object)
	switch intermediate := ix.byUID[ref.UID]; {
	case !ok: // on the way out, pods end after their workload
		return !ix.wasRead(c.Workload.Kind) || in.App.GetDeletionTimestamp() != nil
	case ref.UID == workload.GetUID():
		return true
	case intermediate != nil:
		return metav1.IsControlledBy(intermediate, workload)
	}
	// ReplicaSets, and the Jobs of a CronJob, are seldom read; their names tell.
	isIntermediate := c.Workload.Kind == desired.KindDeployment && ref.Kind == "ReplicaSet" || c.Workload.Kind == desired.KindCronJob && ref.Kind == "Job"
	return isIntermediate && strings.HasPrefix(ref.Name, workload.GetName()+"-")
}
