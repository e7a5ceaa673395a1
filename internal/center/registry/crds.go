package registry

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// definitions is the kind of kinds.
var definitions = Kind{GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
	Resource: "customresourcedefinitions", Global: true, Form: Typed}

// WantCustom follows every kind that is defined in the cluster, for as long as it is. those are
// the ones that somebody wants; namespaces are where, or all if there are none.
func (r *Registry) WantCustom(those func(Kind) bool, namespaces ...string) {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	kind := definitions
	kind.sink = &custom{registry: r, those: those, namespaces: namespaces, known: map[string]Kind{}}
	r.Want("custom kinds", kind, "")
}

// custom wants the kinds that are defined.
type custom struct {
	registry   *Registry
	those      func(Kind) bool
	namespaces []string

	mu    sync.Mutex
	known map[string]Kind // by the name of the definition
}

// Replace wants what is there, and no longer what is not.
func (c *custom) Replace(_ schema.GroupVersionKind, _ string, all []runtime.Object) {
	there := map[string]bool{}
	for _, obj := range all {
		there[obj.(*apiextensionsv1.CustomResourceDefinition).Name] = true
		c.Set(obj)
	}
	c.mu.Lock()
	var gone []string
	for name := range c.known {
		if !there[name] {
			gone = append(gone, name)
		}
	}
	c.mu.Unlock()
	for _, name := range gone {
		c.drop(name)
	}
}

// Set wants a kind once it is established.
func (c *custom) Set(obj runtime.Object) {
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	kind, ok := kindOf(crd)
	c.mu.Lock()
	before, had := c.known[crd.Name]
	if had && ok && before == kind {
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if had {
		c.drop(crd.Name) // another version of it
	}
	if !ok || !c.those(kind) {
		return
	}
	c.mu.Lock()
	c.known[crd.Name] = kind
	c.mu.Unlock()
	for _, ns := range c.where(kind) {
		c.registry.Want("definition/"+crd.Name, kind, ns)
	}
}

// Delete lets a kind go.
func (c *custom) Delete(obj runtime.Object) {
	c.drop(obj.(*apiextensionsv1.CustomResourceDefinition).Name)
}

// Len is how many kinds are followed.
func (c *custom) Len(schema.GroupKind, string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known)
}

func (c *custom) drop(name string) {
	c.mu.Lock()
	kind, ok := c.known[name]
	delete(c.known, name)
	c.mu.Unlock()
	if !ok {
		return
	}
	for _, ns := range c.where(kind) {
		c.registry.Release("definition/"+name, kind, ns)
	}
}

func (c *custom) where(kind Kind) []string {
	if kind.Global {
		return []string{""}
	}
	return c.namespaces
}

// kindOf is what a definition defines, in the version that is stored: the one that needs no
// conversion. ok is false before it is served, and while it goes.
func kindOf(crd *apiextensionsv1.CustomResourceDefinition) (kind Kind, ok bool) {
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
		Resource:         crd.Spec.Names.Plural, Global: crd.Spec.Scope == apiextensionsv1.ClusterScoped,
	}, ok && version != ""
}
