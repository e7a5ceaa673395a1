package informers

import (
	"maps"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// crdKind is the kind CustomResourceDefinition.
var crdKind = Kind{GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
	Resource: "customresourcedefinitions", ClusterScoped: true, ReadMode: Typed}

// CustomKinds selects the custom resources to watch.
type CustomKinds interface {
	// Defined is called when a kind is served, and again when its version or its metadata changes. It
	// reports whether to watch the kind.
	Defined(crd *apiextensionsv1.CustomResourceDefinition, kind Kind) (follow bool)
	// Removed is called when a kind is no longer served, and before Defined is called for it again.
	Removed(kind Kind)
}

// FollowCustomKinds watches the custom resources that kinds selects, for as long as they are defined, in the
// given namespaces. Without namespaces it watches all.
func (r *Registry) FollowCustomKinds(kinds CustomKinds, namespaces ...string) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	kind := crdKind
	kind.sink = &crdSink{registry: r, kinds: kinds, namespaces: namespaces, followed: map[string]followedKind{}}
	r.Acquire("custom kinds", kind, "")
}

// followedKind is a watched kind with the labels and annotations of its CustomResourceDefinition.
type followedKind struct {
	Kind
	labels, annotations map[string]string
}

// crdSink acquires and releases informers for CustomResourceDefinitions.
type crdSink struct {
	registry   *Registry
	kinds      CustomKinds
	namespaces []string

	mu       sync.Mutex
	followed map[string]followedKind // by the name of the CustomResourceDefinition
}

// Replace acquires the kinds of all definitions and releases all other kinds.
func (c *crdSink) Replace(_ schema.GroupVersionKind, _ string, all []runtime.Object) {
	present := map[string]bool{}
	for _, obj := range all {
		present[obj.(*apiextensionsv1.CustomResourceDefinition).Name] = true
		c.Set(obj)
	}
	c.mu.Lock()
	var removed []string
	for name := range c.followed {
		if !present[name] {
			removed = append(removed, name)
		}
	}
	c.mu.Unlock()
	for _, name := range removed {
		c.release(name)
	}
}

// Set acquires a kind once its definition is established.
func (c *crdSink) Set(obj runtime.Object) {
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	kind, ok := kindFromCRD(crd)
	c.mu.Lock()
	before, wasKnown := c.followed[crd.Name]
	c.mu.Unlock()
	if wasKnown && ok && before.Kind == kind && maps.Equal(before.labels, crd.Labels) && maps.Equal(before.annotations, crd.Annotations) {
		return
	}
	if wasKnown {
		c.release(crd.Name)
	}
	if !ok || !c.kinds.Defined(crd, kind) {
		return
	}
	c.mu.Lock()
	c.followed[crd.Name] = followedKind{kind, crd.Labels, crd.Annotations}
	c.mu.Unlock()
	for _, ns := range c.namespacesFor(kind) {
		c.registry.Acquire("definition/"+crd.Name, kind, ns)
	}
}

// Delete releases a kind.
func (c *crdSink) Delete(obj runtime.Object) {
	c.release(obj.(*apiextensionsv1.CustomResourceDefinition).Name)
}

// Len returns the number of watched kinds.
func (c *crdSink) Len(schema.GroupKind, string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.followed)
}

func (c *crdSink) release(name string) {
	c.mu.Lock()
	kind, ok := c.followed[name]
	delete(c.followed, name)
	c.mu.Unlock()
	if !ok {
		return
	}
	for _, ns := range c.namespacesFor(kind.Kind) {
		c.registry.Release("definition/"+name, kind.Kind, ns)
	}
	c.kinds.Removed(kind.Kind)
}

func (c *crdSink) namespacesFor(kind Kind) []string {
	if kind.ClusterScoped {
		return []string{""}
	}
	return c.namespaces
}

// kindFromCRD returns the kind of a definition in the version that appkind.ServedVersion selects. ok is false
// before the definition is established and while it is terminating.
func kindFromCRD(crd *apiextensionsv1.CustomResourceDefinition) (kind Kind, ok bool) {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			ok = true
		}
		if c.Type == apiextensionsv1.Terminating && c.Status == apiextensionsv1.ConditionTrue {
			return Kind{}, false
		}
	}
	version := appkind.ServedVersion(crd)
	return Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
		Resource:         crd.Spec.Names.Plural, ClusterScoped: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
	}, ok && version != ""
}
