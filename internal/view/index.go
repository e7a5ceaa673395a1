package view

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

// index finds objects of an application of ours.
type index struct {
	graph
	children map[desired.ID]runtime.Object
	// by says which objects are of a component, by the label of its workload.
	by map[string][]runtime.Object
	// around is the scene of every component: what belongs to none.
	around explain.Scene
}

func indexOf(in Input) *index {
	ix := &index{
		graph:    newGraph(in.Objects, in.Whole, in.Edges),
		children: map[desired.ID]runtime.Object{}, by: map[string][]runtime.Object{}, around: explain.Scene{Whole: in.Whole},
	}
	for _, refs := range in.Absent {
		for _, ref := range refs {
			ix.absent[ref] = true
		}
	}
	wanted := map[desired.ID]bool{}
	for _, c := range in.Components {
		for _, child := range c.Children {
			wanted[child.ID] = true
		}
	}
	for _, obj := range in.Objects {
		o, ok := obj.(metav1.Object)
		if !ok {
			continue
		}
		id := desired.ID{Kind: kindOf(obj), Name: o.GetName()}
		switch workload := o.GetLabels()[appsapi.LabelWorkload]; {
		case wanted[id]:
			if isOurs(in, o) { // a name may be somebody else's
				ix.children[id] = obj
			}
		case workload != "":
			ix.by[workload] = append(ix.by[workload], obj)
		case isShared(obj):
			ix.around.Add(obj)
		}
	}
	ix.around = clipped(ix.around)
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

// read says whether the objects of a kind were read.
func (ix *index) read(kind schema.GroupVersionKind) bool { return ix.kinds[kind.Kind] }

// scene is what there is to say about a component.
func (ix *index) scene(in Input, c desired.Component) explain.Scene {
	s := ix.around
	s.Absent = in.Absent[c.Name]
	for _, child := range c.Children {
		if obj := ix.children[child.ID]; obj != nil {
			s.Add(obj)
		}
	}
	for _, obj := range ix.parts(in, c) {
		s.Add(obj)
	}
	return s
}

// isOurs says whether a child is the application's: it controls it, or nobody does and the
// label is there still.
func isOurs(in Input, o metav1.Object) bool {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID == in.App.GetUID()
	}
	return o.GetLabels()[appsapi.LabelOwnerUID] == string(in.App.GetUID())
}

// parts are the pods and claims of a component, and whom its Services lead to. The label of
// its workload finds them; where another application got a name first it finds that one's,
// too, and those are left out.
func (ix *index) parts(in Input, c desired.Component) []runtime.Object {
	var out []runtime.Object
	for _, obj := range ix.by[c.WorkloadID] {
		switch o := obj.(type) {
		case *corev1.Pod:
			if ix.isPod(in, c, o) {
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

// isPod says whether the workload of a component controls a pod.
func (ix *index) isPod(in Input, c desired.Component, pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true // its workload is made anew around it
	}
	workload, ok := ix.children[c.Workload].(metav1.Object)
	switch between := ix.known[ref.UID]; {
	case !ok: // on the way out, pods end after their workload
		return !ix.read(c.Workload.Kind) || in.App.GetDeletionTimestamp() != nil
	case ref.UID == workload.GetUID():
		return true
	case between != nil:
		return metav1.IsControlledBy(between, workload)
	}
	// ReplicaSets, and the Jobs of a CronJob, are seldom read; their names tell.
	isBetween := c.Workload.Kind == desired.KindDeployment && ref.Kind == "ReplicaSet" || c.Workload.Kind == desired.KindCronJob && ref.Kind == "Job"
	return isBetween && strings.HasPrefix(ref.Name, workload.GetName()+"-")
}
