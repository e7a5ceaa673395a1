package desired

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Owner is the application that children belong to.
type Owner struct {
	APIVersion, Kind string
	Namespace, Name  string
	UID              types.UID
	// Generation is that of the spec that the children are made from, 0 if it does not
	// matter.
	Generation int64
}

// KindLabel is the value of the label that says which kind an object belongs to. Kinds of other API
// groups have the group in it: two kinds of the same name must not find each other's data.
func (o Owner) KindLabel() string {
	gv, err := schema.ParseGroupVersion(o.APIVersion)
	if err != nil {
		return o.Kind
	}
	return KindLabel(gv.WithKind(o.Kind).GroupKind())
}

// KindLabel is that of all objects of a kind.
func KindLabel(kind schema.GroupKind) string {
	if kind.Group == appsapi.GroupVersion.Group {
		return kind.Kind
	}
	return shorten(kind.String())
}

// ID tells children apart within a namespace.
type ID struct {
	Kind schema.GroupVersionKind
	Name string
}

// HasPods says whether it is a kind that runs pods.
func (id ID) HasPods() bool {
	return id.Kind == KindDeployment || id.Kind == KindStatefulSet || id.Kind == KindJob || id.Kind == KindCronJob
}

// Child is an object that a component needs.
type Child struct {
	ID
	// Render says what it must look like, given how it is now; live is nil when it does
	// not exist. Only what is immutable, or carried over on adoption, is taken from live.
	Render func(live runtime.Object) (*Config, error)
	// InputHash is equal when Render goes by the same but for live, within one process; 0 when
	// that is not known.
	InputHash uint64
	memo      *renderMemo
}

// IncompatibleError is why an existing object cannot become ours although its owner would let us.
type IncompatibleError struct{ Message string }

func (r *IncompatibleError) Error() string { return r.Message }

// Config is an apply configuration on its way to the API server.
type Config struct {
	body     any // the apply configuration; meta points into it
	meta     *metav1ac.ObjectMetaApplyConfiguration
	hash     string
	sendOnly func()           // adds what is sent but not held, see Deployment
	podHold  *podTemplateHold // nil when nothing can be held back
	podsHeld bool
}

func newConfig(body any, meta *metav1ac.ObjectMetaApplyConfiguration) (*Config, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", *meta.Name, err)
	}
	return &Config{body: body, meta: meta, hash: digest(content)[:16]}, nil
}

// Hash is equal for equal configurations.
func (c *Config) Hash() string {
	if c.podHold == nil {
		return c.hash
	}
	return c.hash + "." + c.podHold.hash
}

// Fingerprint tells configurations apart that hold different fields although they have the same
// hash.
func (c *Config) Fingerprint() string {
	if c.podsHeld {
		return c.Hash() + " without its pods"
	}
	return c.Hash()
}

// Labels are the labels we hold.
func (c *Config) Labels() map[string]string { return c.meta.Labels }

// Annotations are the annotations we hold, apart from the hash.
func (c *Config) Annotations() map[string]string { return c.meta.Annotations }

// Fields are all fields we hold, outside of metadata.
func (c *Config) Fields() (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.body)
	if err != nil {
		return nil, fmt.Errorf("read configuration of %s: %w", *c.meta.Name, err)
	}
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(fields, key)
	}
	return fields, nil
}

// Patch is the body of the apply. uid and resourceVersion are its preconditions: the
// object we looked at, unchanged since, or with resourceVersion "1" alone none at all.
// It must be the last use of the configuration.
func (c *Config) Patch(uid types.UID, resourceVersion string) ([]byte, error) {
	c.meta.WithAnnotations(map[string]string{appsapi.AnnotationAppliedHash: c.Hash()})
	c.meta.WithResourceVersion(resourceVersion)
	if uid != "" {
		c.meta.WithUID(uid)
	}
	if c.sendOnly != nil {
		c.sendOnly()
	}
	return json.Marshal(c.body)
}

// ownerReference makes the garbage collector delete the child with its owner.
func ownerReference(o Owner) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name).WithUID(o.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

// annotateList sets an annotation that is a list, if there is anything in it.
func annotateList(meta *metav1ac.ObjectMetaApplyConfiguration, key string, list []string) {
	if len(list) > 0 {
		meta.WithAnnotations(map[string]string{key: strings.Join(list, ",")})
	}
}

// hasAdoptAnnotation says whether the object was somebody else's and its owner let us in.
func hasAdoptAnnotation(live metav1.Object) bool {
	return live.GetAnnotations()[appsapi.AnnotationAdopt] == "true"
}

// toApplyConfig turns a core type into its apply configuration: both have the same JSON.
func toApplyConfig[T any](in any) (*T, error) {
	content, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, json.Unmarshal(content, out)
}
