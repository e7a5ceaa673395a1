// Package store contains the projected objects of the informers, indexed by owner, application and
// references.
//
// Safety rule: stored objects are immutable and only replaced, so that readers can keep them. The store never
// contains the data of a Secret or a ConfigMap.
package store

import (
	"iter"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Entry is a stored object.
type Entry struct {
	kind            *schema.GroupVersionKind // shared by all entries of a kind
	Namespace, Name string
	UID             UID
	ResourceVersion uint64
	// Object is nil if only the existence of the object is stored.
	Object runtime.Object
}

// Kind returns the kind of the object.
func (e *Entry) Kind() schema.GroupVersionKind { return *e.kind }

// Change is a change of an object. Before is nil for a new object, After is nil for a deleted one.
type Change struct{ Before, After *Entry }

// Term is an index key.
type Term struct {
	Field Field
	Value string
}

// Field is the index of a term.
type Field uint8

// Store stores and indexes objects.
type Store struct {
	// terms returns the index terms of an object, in addition to its name, namespace and UID.
	terms func(runtime.Object) []Term
	// onChange is called after every change.
	onChange func([]Change)

	mu       sync.RWMutex
	kinds    map[schema.GroupKind]*kindEntries
	byUID    map[UID]*Entry
	postings map[Term]*posting
}

// kindEntries holds the objects of a kind by namespace and name.
type kindEntries struct {
	kind        schema.GroupVersionKind
	byNamespace map[string]map[string]*Entry
	count       int
}

// New returns an empty store. terms must be deterministic.
func New(terms func(runtime.Object) []Term, onChange func([]Change)) *Store {
	return &Store{terms: terms, onChange: onChange, kinds: map[schema.GroupKind]*kindEntries{}, byUID: map[UID]*Entry{}, postings: map[Term]*posting{}}
}

// Replace sets all objects of a kind in a namespace. An empty namespace means all namespaces.
func (s *Store) Replace(kind schema.GroupVersionKind, namespace string, all []runtime.Object) {
	s.mu.Lock()
	var changes []Change
	present := map[*Entry]bool{}
	for _, obj := range all {
		if c, ok := s.set(obj); ok {
			changes = append(changes, c)
			present[c.After] = true
		} else if c.Before != nil {
			present[c.Before] = true
		}
	}
	for _, e := range s.list(kind.GroupKind(), namespace) {
		if !present[e] {
			s.drop(e)
			changes = append(changes, Change{Before: e})
		}
	}
	s.mu.Unlock()
	s.notify(changes)
}

// Set adds or replaces an object.
func (s *Store) Set(obj runtime.Object) {
	s.mu.Lock()
	c, ok := s.set(obj)
	s.mu.Unlock()
	if ok {
		s.notify([]Change{c})
	}
}

// Delete removes an object.
func (s *Store) Delete(obj runtime.Object) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	s.mu.Lock()
	e := s.get(obj.GetObjectKind().GroupVersionKind().GroupKind(), m.GetNamespace(), m.GetName())
	if e == nil {
		s.mu.Unlock()
		return
	}
	s.drop(e)
	s.mu.Unlock()
	s.notify([]Change{{Before: e}})
}

func (s *Store) notify(changes []Change) {
	if len(changes) > 0 && s.onChange != nil {
		s.onChange(changes)
	}
}

// set returns false if the store already contains this version of the object.
func (s *Store) set(obj runtime.Object) (Change, bool) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return Change{}, false // not an API object
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	entries := s.kinds[gvk.GroupKind()]
	if entries == nil {
		entries = &kindEntries{kind: gvk, byNamespace: map[string]map[string]*Entry{}}
		s.kinds[gvk.GroupKind()] = entries
	}
	version, _ := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	before := s.get(gvk.GroupKind(), m.GetNamespace(), m.GetName())
	if before != nil && before.ResourceVersion == version && before.UID == compactUID(m.GetUID()) {
		return Change{Before: before}, false
	}
	e := &Entry{kind: &entries.kind, Namespace: m.GetNamespace(), Name: m.GetName(), UID: compactUID(m.GetUID()), ResourceVersion: version}
	if _, isStub := obj.(*Stub); !isStub {
		e.Object = obj
	}
	if before != nil {
		s.drop(before)
		e.Namespace, e.Name = before.Namespace, before.Name // reuse the strings
	}
	s.put(entries, e)
	return Change{Before: before, After: e}, true
}

func (s *Store) put(entries *kindEntries, e *Entry) {
	names := entries.byNamespace[e.Namespace]
	if names == nil {
		names = map[string]*Entry{}
		entries.byNamespace[e.Namespace] = names
	}
	names[e.Name] = e
	entries.count++
	if e.Object == nil {
		return
	}
	s.byUID[e.UID] = e
	for _, t := range s.terms(e.Object) {
		p := s.postings[t]
		if p == nil {
			p = &posting{}
			s.postings[t] = p
		}
		p.add(e)
	}
}

func (s *Store) drop(e *Entry) {
	entries := s.kinds[e.kind.GroupKind()]
	delete(entries.byNamespace[e.Namespace], e.Name)
	if len(entries.byNamespace[e.Namespace]) == 0 {
		delete(entries.byNamespace, e.Namespace)
	}
	entries.count--
	if e.Object == nil {
		return
	}
	if s.byUID[e.UID] == e {
		delete(s.byUID, e.UID)
	}
	for _, t := range s.terms(e.Object) {
		if p := s.postings[t]; p != nil && p.remove(e) {
			delete(s.postings, t)
		}
	}
}

func (s *Store) get(kind schema.GroupKind, namespace, name string) *Entry {
	if entries := s.kinds[kind]; entries != nil {
		return entries.byNamespace[namespace][name]
	}
	return nil
}

// Get returns the object with a name, or nil.
func (s *Store) Get(kind schema.GroupKind, namespace, name string) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.get(kind, namespace, name)
}

// ByUID returns the object with a UID, or nil.
func (s *Store) ByUID(u types.UID) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byUID[compactUID(u)]
}

// Find returns the objects with a term, unordered.
func (s *Store) Find(t Term) []*Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p := s.postings[t]; p != nil {
		return p.all()
	}
	return nil
}

// Has reports whether any object has a term.
func (s *Store) Has(t Term) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.postings[t] != nil
}

// List returns the objects of a kind in a namespace, unordered. An empty namespace means all namespaces.
func (s *Store) List(kind schema.GroupKind, namespace string) []*Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.list(kind, namespace)
}

func (s *Store) list(kind schema.GroupKind, namespace string) []*Entry {
	entries := s.kinds[kind]
	if entries == nil {
		return nil
	}
	var out []*Entry
	if namespace != "" {
		for _, e := range entries.byNamespace[namespace] {
			out = append(out, e)
		}
		return out
	}
	for _, names := range entries.byNamespace {
		for _, e := range names {
			out = append(out, e)
		}
	}
	return out
}

// Terms returns the sorted values of all terms of a field.
func (s *Store) Terms(f Field) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []string
	for t := range s.postings {
		if t.Field == f {
			out = append(out, t.Value)
		}
	}
	slices.Sort(out)
	return out
}

// Len returns the number of objects of a kind in a namespace. An empty namespace means all namespaces.
func (s *Store) Len(kind schema.GroupKind, namespace string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	entries := s.kinds[kind]
	switch {
	case entries == nil:
		return 0
	case namespace != "":
		return len(entries.byNamespace[namespace])
	}
	return entries.count
}

// Counts returns the number of objects of each kind.
func (s *Store) Counts() iter.Seq2[schema.GroupKind, int] {
	return func(yield func(schema.GroupKind, int) bool) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		for kind, entries := range s.kinds {
			if !yield(kind, entries.count) {
				return
			}
		}
	}
}

// ControllerUID returns the UID of the controlling owner, or "".
func ControllerUID(obj runtime.Object) types.UID {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(m); ref != nil {
		return ref.UID
	}
	return ""
}
