package appkind

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Observe returns the components of an application for inspection. objects can contain its children.
// Components of a built-in kind are rendered; those of a discovered kind are derived from status and
// children.
func Observe(app Application, objects []runtime.Object) []desired.Component {
	if !Of(app).Discovered {
		return desired.Build(Owner(app), Components(app), desired.ClusterState{Retained: retainedClaims(Of(app).Keys, objects)})
	}
	var out []desired.Component
	for _, s := range app.(Stack).StackStatus().Components {
		out = append(out, desired.Component{
			Name: s.Name, Type: s.Type, ResourceName: s.ResourceName, DependsOn: s.DependsOn, Suspended: s.Reason == appsapi.ReasonSuspended,
		})
	}
	children := childrenByComponent(app, objects)
	if len(out) == 0 { // kinds with a single component do not list it in their status
		out = componentsOfChildren(children)
	}
	for i := range out {
		addChildren(Of(app).Keys, &out[i], children[out[i].Name])
	}
	return out
}

// retainedClaims returns the claims among objects: a component keeps the names of its data.
func retainedClaims(keys *appsapi.Keys, objects []runtime.Object) []desired.RetainedObject {
	var out []desired.RetainedObject
	for _, obj := range objects {
		if claim, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			out = append(out, desired.RetainedClaim(keys, claim))
		}
	}
	return out
}

// observedChild is a child in the cluster.
type observedChild struct {
	desired.ID
	metav1.Object
}

func childrenByComponent(app Application, objects []runtime.Object) map[string][]observedChild {
	out := map[string][]observedChild{}
	for _, obj := range objects {
		if o, ok := obj.(metav1.Object); ok && metav1.IsControlledBy(o, app) {
			component := o.GetLabels()[appsapi.LabelComponent]
			id := desired.ID{Kind: obj.GetObjectKind().GroupVersionKind(), Name: o.GetName()}
			out[component] = append(out[component], observedChild{id, o})
		}
	}
	return out
}

// componentsOfChildren returns a component for each workload.
func componentsOfChildren(children map[string][]observedChild) []desired.Component {
	var out []desired.Component
	for name, all := range children {
		if i := slices.IndexFunc(all, func(c observedChild) bool { return c.HasPods() }); i >= 0 {
			out = append(out, desired.Component{Name: name, Type: typeOfWorkload(all[i].ID), ResourceName: all[i].Name})
		}
	}
	slices.SortFunc(out, func(a, b desired.Component) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func typeOfWorkload(workload desired.ID) appsapi.ComponentType {
	switch workload.Kind {
	case desired.KindStatefulSet:
		return appsapi.ComponentStateful
	case desired.KindJob, desired.KindCronJob:
		return appsapi.ComponentJob
	}
	return appsapi.ComponentService
}

// addChildren adds its children to a component. A workload with another name is being removed.
func addChildren(keys *appsapi.Keys, c *desired.Component, children []observedChild) {
	c.Workload = desired.ID{Kind: workloadKind(c.Type), Name: c.ResourceName}
	var live metav1.Object
	var others []desired.Child
	for _, child := range children {
		switch {
		case !child.HasPods():
			others = append(others, desired.Child{ID: child.ID})
		case child.Name == c.ResourceName:
			c.Workload, live = child.ID, child.Object
		}
	}
	c.WorkloadID = desired.WorkloadID(c.Workload.Kind.Kind, c.Workload.Name)
	if live != nil {
		c.WorkloadID = live.GetLabels()[keys.Workload]
		if len(c.DependsOn) == 0 {
			c.DependsOn = desired.PodDependencies(keys, live)
		}
	}
	c.NonBlocking = c.Workload.Kind == desired.KindCronJob
	c.Children = append([]desired.Child{{ID: c.Workload}}, others...)
}

func workloadKind(t appsapi.ComponentType) schema.GroupVersionKind {
	switch t {
	case appsapi.ComponentStateful, appsapi.ComponentDatabase:
		return desired.KindStatefulSet
	case appsapi.ComponentJob:
		return desired.KindJob
	case appsapi.ComponentService:
	}
	return desired.KindDeployment
}
