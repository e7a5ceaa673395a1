package engine

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// Component is one part of an application.
type Component = appsapi.Component

// PlainPassword is the value of a credential of a component. The credentials of a database have the keys
// root-password and password.
type PlainPassword = desired.PlainPassword

// ComponentType is the type of a component.
type ComponentType = appsapi.ComponentType

// ComponentStatus is the observed state of one component.
type ComponentStatus = reconcile.ComponentStatus

// Object is an object of a kind that the engine runs.
type Object interface {
	client.Object
	// ApplicationStatus is the part of its status that the engine writes.
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Stack is an object of a kind with several components. The engine also writes its StackStatus.
type Stack = reconcile.Stack

// Kind is a kind of application.
type Kind[T Object] struct {
	// New returns an empty object.
	New func() T
	// Components returns the components of an object. It must not change the object.
	Components func(T) []Component
	// SpecPath returns the path of a component's fields in the spec of an object, for messages:
	// spec.store. Without it, messages name fields as if the spec were the component's.
	SpecPath func(Component) string
	// Operations returns the requests to the operator in the spec of an object, which embeds
	// appsapi.Operations inline; nil if the kind has none. With them, kubectl holdfast can restart,
	// suspend and resume its objects, and rotate the passwords of their databases.
	Operations func(T) *appsapi.Operations
	// PlainPasswords returns the passwords that the spec of an object contains; nil if the kind has no
	// such fields. The engine copies them into the Secret of the component and nowhere else.
	PlainPasswords func(T) []PlainPassword
	// Types are the types that its components may have; none means all. Only kinds that these types
	// need are watched and must be granted, see the packages of engine/rbac. Never remove a type
	// while objects have components of it: their children would be orphaned.
	Types []ComponentType
	// DeletionPolicy returns whether data of removed components is deleted; nil means that it is
	// retained.
	DeletionPolicy func(T) appsapi.DeletionPolicy
	// UpdateStatus sets fields of the status beyond ApplicationStatus and StackStatus; nil if there
	// are none.
	UpdateStatus func(T, []ComponentStatus)
	// SummarizeConditions sets fields of the status that follow from its conditions. It also runs
	// while the object is deleted or its state cannot be read. It may be nil.
	SummarizeConditions func(T)
	// History returns the spec to store as a revision, without passwords, and how many earlier ones
	// to keep (0 for the default of 10). Without it there are no revisions.
	History func(T) (spec any, limit int32)
}

// untyped converts the kind for the reconcile loop, which is the same code for all kinds.
func (k Kind[T]) untyped(gvk schema.GroupVersionKind) reconcile.Kind {
	out := reconcile.Kind{Types: k.Types, Kind: execute.Kind{
		GVK: gvk,
		New: func() execute.Application { return k.New() },
		Components: func(app execute.Application) []desired.ExpandedComponent {
			var passwords []PlainPassword
			if k.PlainPasswords != nil {
				passwords = k.PlainPasswords(app.(T))
			}
			components := desired.ExpandComponents(k.Components(app.(T)), passwords...)
			if k.Operations != nil {
				components = desired.SetOperations(components, k.Operations(app.(T)))
			}
			if k.SpecPath != nil {
				components = desired.SetSpecPaths(components, k.SpecPath)
			}
			return components
		},
	}}
	if k.DeletionPolicy != nil {
		out.DeletionPolicy = func(app execute.Application) appsapi.DeletionPolicy { return k.DeletionPolicy(app.(T)) }
	}
	if k.History != nil {
		out.History = func(app execute.Application) (any, int32) { return k.History(app.(T)) }
	}
	if k.UpdateStatus != nil {
		out.UpdateStatus = func(app execute.Application, components []ComponentStatus) { k.UpdateStatus(app.(T), components) }
	}
	if k.SummarizeConditions != nil {
		out.SummarizeConditions = func(app execute.Application) { k.SummarizeConditions(app.(T)) }
	}
	return out
}
