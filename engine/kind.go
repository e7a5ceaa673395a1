package engine

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Component is one part of an application.
type Component = appsapi.Component

// Object is an object of a kind that the engine runs.
type Object interface {
	client.Object
	// ApplicationStatus is the part of its status that the engine writes.
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Kind is a kind of application.
type Kind[T Object] struct {
	// New returns an empty object.
	New func() T
	// Components says what an object consists of. It must not change the object.
	Components func(T) []Component
	// DeletionPolicy says what becomes of data that is no longer wanted; nil means that it is
	// kept.
	DeletionPolicy func(T) appsapi.DeletionPolicy
	// UpdateStatus writes into the status of the object what its kind shows beyond
	// ApplicationStatus and StackStatus; nil means nothing.
	UpdateStatus func(T, []ComponentStatus)
	// SummarizeConditions writes into the status of the object what follows from its conditions, also
	// while it is deleted or cannot be read; nil means nothing.
	SummarizeConditions func(T)
	// History says what of an object is remembered and how many earlier ones are, 0 for
	// the usual 10; nil means nothing is.
	History func(T) (spec any, limit int32)
}

// withDatabaseServers runs the databases of a kind as those of an AppStack are run.
func withDatabaseServers[T Object](kind Kind[T]) Kind[T] {
	components := kind.Components
	kind.Components = func(app T) []Component { return desired.ExpandDatabases(components(app)) }
	return kind
}

// Stack is an object of a kind with several components.
type Stack interface {
	Object
	// StackStatus is the part of its status that is about them; the engine writes it.
	StackStatus() *appsapi.StackStatus
}

// ComponentStatus is what was seen of one component.
type ComponentStatus struct {
	Name string
	Type appsapi.ComponentType
	// ResourceName is the name of the child that runs the pods.
	ResourceName string
	// Health is that of the component, and Reason and Message why.
	Health, Reason, Message string
	// Desired, Replicas, Ready and Available count pods.
	Desired, Replicas, Ready, Available int32
	// Selector finds the pods, in the syntax of kubectl.
	Selector string
	// Endpoints are where it can be reached, from outside of the cluster first.
	Endpoints []appsapi.Endpoint
	// Binding is the Secret that says how to get in, of a database that lets somebody in.
	Binding string
}

// Options of a controller. The zero value is fit for production.
type Options struct {
	// Workers is how many objects are worked on at once; 0 means 32. They mostly wait for the
	// API server, and some of them for webhooks that do not answer.
	Workers int
	// MaxBackoff bounds the time between two tries of what the API server refuses; 0
	// means 5 minutes.
	MaxBackoff time.Duration
	// Namespace is the operator's own; "" means holdfast-system.
	Namespace string
}

func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = 32
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = 5 * time.Minute
	}
	if o.Namespace == "" {
		o.Namespace = "holdfast-system"
	}
	return o
}
