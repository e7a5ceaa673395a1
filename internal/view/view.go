// Package view makes of an application and everything around it what people see: a tree
// with the health of each part, and why it is what it is. Plugin and center show it.
//
// Safety rule: it judges what it is given and reads nothing itself. What it was not given it
// does not call healthy.
package view

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
	// Absent are, by component, ConfigMaps and Secrets that are referred to and not there.
	Absent map[string][]explain.Ref
	// Whole are the kinds of which everything is in Objects.
	Whole []string
	// Edges asks for a tree that also shows what objects select, mount and refer to.
	Edges bool
	Now   time.Time
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
	// Rest are, of an application that is not ours, the roots that are of no component.
	Rest []Node
	// Causes are all of them, those of the whole first.
	Causes []explain.Cause
	// Changes are the newest ones, by others than the operator.
	Changes []Change
	// Ask are the objects whose events would tell more.
	Ask []explain.Object
	// Again is when to look again although nothing happens.
	Again time.Time
}

// Component is one part of it.
type Component struct {
	Name   string
	Type   appsapi.ComponentType
	Health health.Status
	// Message says in one sentence why it is not healthy.
	Message       string
	Ready, Wanted int32
	DependsOn     []string
	// WaitsFor are the dependencies that hold it back now.
	WaitsFor []string
	Workload desired.ID
	Causes   []explain.Cause
	Tree     []Node
}

// Waiting is the health of a component that another one holds back.
const Waiting health.Status = "Waiting"

// Of judges an application.
func Of(in Input) View {
	v := View{Kind: in.Kind, Namespace: in.App.GetNamespace(), Name: in.App.GetName(), Health: health.Unknown}
	v.Deleting = in.App.GetDeletionTimestamp() != nil
	index := indexOf(in)
	for _, c := range in.Components {
		v.Components = append(v.Components, v.component(in, index, c))
	}
	v.condition(in)
	if !v.Deleting { // nothing is begun any more
		v.wait(in, index)
	}
	v.whole(in)
	for _, c := range v.Components {
		v.Causes = append(v.Causes, c.Causes...)
	}
	v.Changes = changes(in)
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

// object is the application itself, where a cause is seen.
func (v *View) object(in Input) explain.Object {
	return explain.Object{Kind: in.Kind, Namespace: v.Namespace, Name: v.Name, UID: in.App.GetUID()}
}

func (v *View) later(t time.Time) {
	if !t.IsZero() && (v.Again.IsZero() || t.Before(v.Again)) {
		v.Again = t
	}
}
