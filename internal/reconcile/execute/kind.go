package execute

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Application is an object of a kind that Holdfast reconciles.
type Application interface {
	client.Object
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Kind describes a kind of application to the executor.
type Kind struct {
	GVK schema.GroupVersionKind
	// Keys are the label and annotation keys of the operator.
	Keys *appsapi.Keys
	// New returns an empty object.
	New func() Application
	// Components returns the expanded components of an object, see desired.ExpandComponents.
	Components func(Application) []desired.ExpandedComponent
	// DeletionPolicy is nil for a kind that always retains its data.
	DeletionPolicy func(Application) appsapi.DeletionPolicy
	// History returns the spec to store as a revision, and how many earlier revisions to keep (0
	// for the default). It is nil for a kind without revisions.
	History func(Application) (spec any, limit int32)
}

// deletesData reports whether data is deleted together with its component.
func (k *Kind) deletesData(app Application) bool {
	return k.DeletionPolicy != nil && k.DeletionPolicy(app) == appsapi.DeletionDelete
}
