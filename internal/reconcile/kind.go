package reconcile

import (
	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// Kind is a kind of application.
type Kind struct {
	execute.Kind
	// Types are the component types that the kind can contain; empty means all types.
	Types []appsapi.ComponentType
	// UpdateStatus sets status fields that only this kind has; nil if the kind has no such fields.
	UpdateStatus func(execute.Application, []ComponentStatus)
	// SummarizeConditions sets status fields that are derived from the conditions, also while the
	// application is being deleted or cannot be observed; nil if the kind has no such fields.
	SummarizeConditions func(execute.Application)
}

// Stack is an application with several components.
type Stack interface {
	execute.Application
	StackStatus() *appsapi.StackStatus
}

// ComponentStatus is the observed state of one component.
type ComponentStatus struct {
	Name string
	Type appsapi.ComponentType
	// ResourceName is the name of the workload.
	ResourceName            string
	Health, Reason, Message string
	// DependsOn lists the dependencies of a waiting component; nil for all other components.
	DependsOn []string
	// Desired, Replicas, Ready and Available count pods.
	Desired, Replicas, Ready, Available int32
	// Selector selects the pods, in the syntax of kubectl.
	Selector string
	// Endpoints list external addresses first.
	Endpoints []appsapi.Endpoint
	// Binding is the name of the Secret with the connection details of a database.
	Binding string
}
