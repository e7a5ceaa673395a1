package desired

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Owner is the application that children belong to.
type Owner struct {
	APIVersion, Kind string
	Namespace, Name  string
	UID              types.UID
	// Keys are the label and annotation keys that the operator of the application uses.
	Keys *appsapi.Keys `json:"-"` // equal for all applications of a process
	// Generation is the generation of the spec that the children are rendered from; 0 if it is irrelevant.
	Generation int64
}

// KindLabel returns the value of the owner-kind label. It includes the API group for kinds of other groups, so
// that two kinds with the same name do not share data.
func (o Owner) KindLabel() string {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return o.Kind
	}
	return KindLabel(gv.WithKind(o.Kind).GroupKind())
}

// KindLabel returns the value of the owner-kind label for a kind.
func KindLabel(kind schema.GroupKind) string {
	if kind.Group == appsapi.GroupVersion.Group {
		return kind.Kind
	}
	return shorten(kind.String())
}

// ID identifies a child within a namespace.
type ID struct {
	Kind schema.GroupVersionKind
	Name string
}

// HasPods reports whether the kind is a workload.
func (id ID) HasPods() bool {
	return id.Kind == KindDeployment || id.Kind == KindStatefulSet || id.Kind == KindJob || id.Kind == KindCronJob
}

// Child is an object of a component.
type Child struct {
	ID
	// Render returns the apply configuration of the child. live is the current object, or nil if it does not exist.
	// Only immutable fields and fields preserved by adoption depend on live.
	Render func(live runtime.Object) (*Config, error)
	// InputHash is a hash of all inputs of Render except live. It is comparable only within one process; 0 if unknown.
	InputHash uint64
	memo      *renderMemo
}

// IncompatibleError reports that an existing object cannot be adopted or updated because of its immutable
// fields.
type IncompatibleError struct{ Message string }

func (r *IncompatibleError) Error() string { return r.Message }

// hasAdoptAnnotation reports whether an object has the annotation that allows its adoption.
func hasAdoptAnnotation(keys *appsapi.Keys, live metav1.Object) bool {
	return live.GetAnnotations()[keys.Adopt] == "true"
}
