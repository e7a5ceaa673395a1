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

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// appIndex finds objects of a managed application.
type appIndex struct {
	graph
	children map[desired.ID]runtime.Object
	// byWorkload are the objects of each component, by the workload label.
	byWorkload map[string][]runtime.Object
	// shared contains the shared objects of all snapshots.
	shared explain.Snapshot
}

func newAppIndex(in Input) *appIndex {
	ix := &appIndex{
		graph:    newGraph(in.Objects, in.CompleteKinds, in.IncludeEdges),
		children: map[desired.ID]runtime.Object{}, byWorkload: map[string][]runtime.Object{}, shared: explain.Snapshot{Keys: in.Owner.Keys, CompleteKinds: in.CompleteKinds},
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
		switch workload := o.GetLabels()[in.Owner.Keys.Workload]; {
		case desiredIDs[id]:
			if isOwnedByApp(in, o) { // an object of the same name can belong to another owner
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

// isShared reports whether an object is shared by all components. Objects left over from a removed
// component are not: its Service would be matched against the pods of other components.
func isShared(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.Node, *corev1.PersistentVolume, *corev1.Event, *storagev1.StorageClass, *networkingv1.IngressClass, *discoveryv1.EndpointSlice:
		return true
	}
	return false
}

// wasRead reports whether all objects of a kind were read.
func (ix *appIndex) wasRead(kind schema.GroupVersionKind) bool { return ix.completeKinds[kind.Kind] }

// snapshot returns the snapshot for the diagnosis of a component.
func (ix *appIndex) snapshot(in Input, c desired.Component) explain.Snapshot {
	s := ix.shared
	s.SpecPath, s.DefaultReadinessProbe, s.MissingRefs = c.SpecPath, c.DefaultReadinessProbe, in.MissingRefs[c.Name]
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

// isOwnedByApp reports whether the application controls a child, or the child has no controller but the
// owner label of the application.
func isOwnedByApp(in Input, o metav1.Object) bool {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID == in.App.GetUID()
	}
	return o.GetLabels()[in.Owner.Keys.OwnerUID] == string(in.App.GetUID())
}

// componentObjects returns the pods, claims and EndpointSlices of a component, by the workload label.
// Objects of another application with the same workload name have the same label and are skipped.
func (ix *appIndex) componentObjects(in Input, c desired.Component) []runtime.Object {
	var out []runtime.Object
	for _, obj := range ix.byWorkload[c.WorkloadID] {
		switch o := obj.(type) {
		case *corev1.Pod:
			if ix.ownsPod(in, c, o) {
				out = append(out, obj)
			}
		case *corev1.PersistentVolumeClaim:
			// New claims have no owner label yet, and claims of an earlier application of the same
			// name have its UID.
			if kind := o.Labels[in.Owner.Keys.OwnerKind]; kind == "" || kind == in.Owner.KindLabel() {
				out = append(out, obj)
			}
		case *discoveryv1.EndpointSlice:
			out = append(out, obj)
		}
	}
	return out
}

// ownsPod reports whether the workload of a component controls a pod.
func (ix *appIndex) ownsPod(in Input, c desired.Component, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true // orphaned while its workload is recreated
	}
	workload, ok := ix.children[c.Workload].(metav1.Object)
	switch intermediate := ix.byUID[ref.UID]; {
	case !ok: // during deletion, pods terminate after their workload
		return !ix.wasRead(c.Workload.Kind) || in.App.GetDeletionTimestamp() != nil
	case ref.UID == workload.GetUID():
		return true
	case intermediate != nil:
		return metav1.IsControlledBy(intermediate, workload)
	}
	// ReplicaSets and the Jobs of a CronJob are often not read, so their names decide.
	isIntermediate := c.Workload.Kind == desired.KindDeployment && ref.Kind == "ReplicaSet" || c.Workload.Kind == desired.KindCronJob && ref.Kind == "Job"
	return isIntermediate && strings.HasPrefix(ref.Name, workload.GetName()+"-")
}
