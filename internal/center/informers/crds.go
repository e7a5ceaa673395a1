package informers

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// crdKind is the kind of kinds.
var crdKind = Kind{GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
	Resource: "customresourcedefinitions", ClusterScoped: true, ReadMode: Typed}

// FollowCustomKinds follows every kind that is defined in the cluster, for as long as it is. those are
// the ones that somebody wants; namespaces are where, or all if there are none.
func (r *Registry) FollowCustomKinds(filter func(Kind) bool, namespaces ...string) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	kind := crdKind
	kind.sink = &crdSink{registry: r, filter: filter, namespaces: namespaces, kindByCRD: map[string]Kind{}}
	r.Acquire("custom kinds", kind, "")
}

// crdSink wants the kinds that are defined.
type crdSink struct {
	registry   *Registry
	filter     func(Kind) bool
	namespaces []string

	mu        sync.Mutex
	kindByCRD map[string]Kind // by the name of the definition
}

// Replace wants what is there, and no longer what is not.
func (c *crdSink) Replace(_ schema.GroupVersionKind, _ string, all []runtime.Object) {
	present := map[string]bool{}
	for _, obj := range all {
		present[obj.(*apiextensionsv1.CustomResourceDefinition).Name] = true
		c.Set(obj)
	}
	c.mu.Lock()
	var removed []string
	for name := range c.kindByCRD {
		if !present[name] {
			removed = append(removed, name)
		}
	}
	c.mu.Unlock()
	for _, name := range removed {
		c.release(name)
	}
}

// Set wants a kind once it is established.
func (c *crdSink) Set(obj runtime.Object) {
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	kind, ok := kindFromCRD(crd)
	c.mu.Lock()
	before, wasKnown := c.kindByCRD[crd.Name]
	if wasKnown && ok && before == kind {
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if wasKnown {
		c.release(crd.Name) // another version of it
	}
	if !ok || !c.filter(kind) {
		return
	}
	c.mu.Lock()
	c.kindByCRD[crd.Name] = kind
	c.mu.Unlock()
	for _, ns := range c.namespacesFor(kind) {
		c.registry.Acquire("definition/"+crd.Name, kind, ns)
	}
}

// Delete lets a kind go.
func (c *crdSink) Delete(obj runtime.Object) {
	c.release(obj.(*apiextensionsv1.CustomResourceDefinition).Name)
}

// Len is how many kinds are followed.
func (c *crdSink) Len(schema.GroupKind, string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kindByCRD)
}

func (c *crdSink) release(name string) {
	c.mu.Lock()
	kind, ok := c.kindByCRD[name]
	delete(c.kindByCRD, name)
	c.mu.Unlock()
	if !ok {
		return
	}
	for _, ns := range c.namespacesFor(kind) {
		c.registry.Release("definition/"+name, kind, ns)
	}
}

func (c *crdSink) namespacesFor(kind Kind) []string {
	if kind.ClusterScoped {
		return []string{""}
	}
	return c.namespaces
}

// kindFromCRD is what a definition defines, in the version that is stored: the one that needs no
// conversion. ok is false before it is served, and while it goes.
func kindFromCRD(crd *apiextensionsv1.CustomResourceDefinition) (kind Kind, ok bool) {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			ok = true
		}
		if c.Type == apiextensionsv1.Terminating && c.Status == apiextensionsv1.ConditionTrue {
			return Kind{}, false
		}
	}
	version := ""
	for _, v := range crd.Spec.Versions {
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	return Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
		Resource:         crd.Spec.Names.Plural, ClusterScoped: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
	}, ok && version != ""
}
