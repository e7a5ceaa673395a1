// Package inspect builds the view of an application for the plugin and the application center: its
// objects as a tree, with their health and the causes of problems.
//
// Safety rule: it only evaluates its input and makes no API calls. Objects that are not in the input
// are never healthy.
package inspect

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Input contains the known objects of an application.
type Input struct {
	// App is the application object, of kind Kind.
	App  metav1.Object
	Kind string
	// Owner is the application as its children refer to it.
	Owner desired.Owner
	// Status and Stack are parts of its status; Stack is nil for kinds of one component.
	Status *appsapi.ApplicationStatus
	Stack  *appsapi.StackStatus
	// Components are the desired components.
	Components []desired.Component
	// Objects are its children, their pods and claims, and shared objects such as nodes. Their
	// kind is set.
	Objects []runtime.Object
	// MissingRefs are the referenced ConfigMaps and Secrets that do not exist, by component.
	MissingRefs map[string][]explain.Ref
	// CompleteKinds are the kinds of which Objects contains all objects.
	CompleteKinds []string
	// IncludeEdges adds the objects that others select, mount and refer to to the tree.
	IncludeEdges bool
	Now          time.Time
}

// View is the health of an application and its components.
type View struct {
	Kind, Namespace, Name string
	// Ready is the condition Ready for the current generation.
	Ready bool
	// Deleting is set while the application is being deleted.
	Deleting bool
	// Health is the health of the worst component.
	Health health.Status
	// Reason and Message are those of the condition Ready, and Since is its transition time; for an
	// application that is being deleted, the deletion time.
	Reason, Message string
	Since           time.Time
	Components      []Component
	// Unassigned are the roots of an unmanaged application that belong to no component.
	Unassigned []Node
	// Causes are all causes; those of the application itself come first.
	Causes []explain.Cause
	// Changes are the newest changes by field managers other than the operator.
	Changes []Change
	// EventsNeeded are the objects whose events are needed for a better diagnosis.
	EventsNeeded []explain.ObjectRef
	// RecheckAt is when to evaluate again even if no object changes.
	RecheckAt time.Time
}

// Component is the health of a component.
type Component struct {
	Name   string
	Type   appsapi.ComponentType
	Health health.Status
	// Suspended is set if the component, or the whole application, is suspended.
	Suspended bool
	// Message is one sentence that explains why it is not healthy.
	Message        string
	Ready, Desired int32
	DependsOn      []string
	// WaitsFor are the dependencies that currently block it.
	WaitsFor []string
	Workload desired.ID
	Causes   []explain.Cause
	Tree     []Node
}

// Waiting is the health of a component that waits for a dependency.
const Waiting health.Status = "Waiting"

// Evaluate evaluates an application.
func Evaluate(in Input) View {
	v := View{Kind: in.Kind, Namespace: in.App.GetNamespace(), Name: in.App.GetName(), Health: health.Unknown}
	v.Deleting = in.App.GetDeletionTimestamp() != nil
	index := newAppIndex(in)
	v.readCondition(in)
	unobserved := v.addUnobserved(in)
	var failures []explain.Cause
	if !v.Ready && !v.Deleting && !unobserved {
		failures = v.failedWrites(in)
	}
	for _, c := range in.Components {
		v.Components = append(v.Components, v.evaluateComponent(in, index, c, failures))
	}
	if !v.Deleting { // nothing waits for dependencies during deletion
		v.addReportedProgress(in)
		v.addComponentReasons(in)
		v.resolveWaits(in, index)
	}
	v.evaluateHealth(in, unobserved)
	for _, c := range v.Components {
		v.Causes = append(v.Causes, c.Causes...)
	}
	v.Changes = recentChanges(in)
	return v
}

// Component returns a component by its name, or nil.
func (v *View) Component(name string) *Component {
	for i := range v.Components {
		if v.Components[i].Name == name {
			return &v.Components[i]
		}
	}
	return nil
}

// appRef returns a reference to the application itself.
func appRef(in Input) explain.ObjectRef {
	o := explain.ObjectRef{Kind: in.Kind, Namespace: in.App.GetNamespace(), Name: in.App.GetName(), UID: in.App.GetUID()}
	if gv, err := schema.ParseGroupVersion(in.Owner.APIVersion); err == nil && gv.Group != appsapi.GroupName {
		o.Group = gv.Group
	}
	return o
}

func (v *View) scheduleRecheck(t time.Time) {
	if !t.IsZero() && (v.RecheckAt.IsZero() || t.Before(v.RecheckAt)) {
		v.RecheckAt = t
	}
}
