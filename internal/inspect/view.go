// Package inspect makes of an application and everything around it what people see: a tree
// with the health of each part, and why it is what it is. Plugin and center show it.
//
// Safety rule: it judges what it is given and reads nothing itself. What it was not given it
// does not call healthy.
package inspect

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Input is what is known about an application.
type Input struct {
	// App is the object, of kind Kind.
	App  metav1.Object
	Kind string
	// Status and Stack are parts of its status; Stack is nil for kinds of one component.
	Status *appsapi.ApplicationStatus
	Stack  *appsapi.StackStatus
	// Components is what it consists of.
	Components []desired.Component
	// Objects are its children, their pods and claims, and what these share with others. They
	// carry their kind.
	Objects []runtime.Object
	// MissingRefs are, by component, ConfigMaps and Secrets that are referred to and not there.
	MissingRefs map[string][]explain.Ref
	// CompleteKinds are the kinds of which everything is in Objects.
	CompleteKinds []string
	// IncludeEdges asks for a tree that also shows what objects select, mount and refer to.
	IncludeEdges bool
	Now          time.Time
}

// View is an application as people see it.
type View struct {
	Kind, Namespace, Name string
	// Ready is what the operator says about the current generation.
	Ready bool
	// Deleting says that it is on its way out.
	Deleting bool
	// Health is as bad as the worst component.
	Health health.Status
	// Reason and Message are those of the condition Ready, since Since; what is being deleted
	// is so since then.
	Reason, Message string
	Since           time.Time
	Components      []Component
	// Unassigned are, of an application that is not ours, the roots that are of no component.
	Unassigned []Node
	// Causes are all of them, those of the whole first.
	Causes []explain.Cause
	// Changes are the newest ones, by others than the operator.
	Changes []Change
	// EventsNeeded are the objects whose events would tell more.
	EventsNeeded []explain.ObjectRef
	// RecheckAt is when to look again although nothing happens.
	RecheckAt time.Time
}

// Component is one part of it.
type Component struct {
	Name   string
	Type   appsapi.ComponentType
	Health health.Status
	// Message says in one sentence why it is not healthy.
	Message        string
	Ready, Desired int32
	DependsOn      []string
	// WaitsFor are the dependencies that hold it back now.
	WaitsFor []string
	Workload desired.ID
	Causes   []explain.Cause
	Tree     []Node
}

// Waiting is the health of a component that another one holds back.
const Waiting health.Status = "Waiting"

// Evaluate judges an application.
func Evaluate(in Input) View {
	v := View{Kind: in.Kind, Namespace: in.App.GetNamespace(), Name: in.App.GetName(), Health: health.Unknown}
	v.Deleting = in.App.GetDeletionTimestamp() != nil
	index := newAppIndex(in)
	for _, c := range in.Components {
		v.Components = append(v.Components, v.evaluateComponent(in, index, c))
	}
	v.readCondition(in)
	if !v.Deleting { // nothing is begun any more
		v.resolveWaits(in, index)
	}
	v.evaluateHealth(in)
	for _, c := range v.Components {
		v.Causes = append(v.Causes, c.Causes...)
	}
	v.Changes = recentChanges(in)
	return v
}

// Component is one by its name, or nil.
func (v *View) Component(name string) *Component {
	for i := range v.Components {
		if v.Components[i].Name == name {
			return &v.Components[i]
		}
	}
	return nil
}

// appRef is the application itself, where a cause is seen.
func (v *View) appRef(in Input) explain.ObjectRef {
	return explain.ObjectRef{Kind: in.Kind, Namespace: v.Namespace, Name: v.Name, UID: in.App.GetUID()}
}

func (v *View) scheduleRecheck(t time.Time) {
	if !t.IsZero() && (v.RecheckAt.IsZero() || t.Before(v.RecheckAt)) {
		v.RecheckAt = t
	}
}
