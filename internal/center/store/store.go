// Package store holds the objects that informers have seen, projected to what is worth keeping,
// and finds them again by what they belong to and what they use.
//
// Safety rule: objects in it are never changed, only replaced, so that readers may keep what they
// were given. What a Secret or a ConfigMap contains never gets here.
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

// Entry is an object.
type Entry struct {
	kind            *schema.GroupVersionKind // shared by all of a kind
	Namespace, Name string
	UID             UID
	ResourceVersion uint64 // the resourceVersion, which grows
	// Object is nil when nothing but that it is there is worth keeping.
	Object runtime.Object
}

// Kind is the kind of the object.
func (e *Entry) Kind() schema.GroupVersionKind { return *e.kind }

// Change is what has happened to an object. Before is nil when it is new, After when it is gone.
type Change struct{ Before, After *Entry }

// Term is something by which an object is found.
type Term struct {
	Field Field
	Value string
}

// Field says what a term is about.
type Field uint8

// Store holds objects.
type Store struct {
	// terms are what an object is found by, beside its name, namespace and UID.
	terms func(runtime.Object) []Term
	// onChange hears of every change, after it.
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

// New makes a store. terms must answer the same about the same object.
func New(terms func(runtime.Object) []Term, onChange func([]Change)) *Store {
	return &Store{terms: terms, onChange: onChange, kinds: map[schema.GroupKind]*kindEntries{}, byUID: map[UID]*Entry{}, postings: map[Term]*posting{}}
}

// Replace says that these are all objects of a kind, in a namespace or, if it is empty, in all.
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

// Set adds an object, or replaces it.
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

// set is false when the object is there already, in this version.
func (s *Store) set(obj runtime.Object) (Change, bool) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return Change{}, false // no object of the API
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
		e.Namespace, e.Name = before.Namespace, before.Name // the same strings
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

// Get is an object by its name, or nil.
func (s *Store) Get(kind schema.GroupKind, namespace, name string) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.get(kind, namespace, name)
}

// ByUID is an object by its UID, or nil.
func (s *Store) ByUID(u types.UID) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byUID[compactUID(u)]
}

// Find are the objects with a term, in no order.
func (s *Store) Find(t Term) []*Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p := s.postings[t]; p != nil {
		return p.all()
	}
	return nil
}

// Has says whether any object has a term.
func (s *Store) Has(t Term) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.postings[t] != nil
}

// List are the objects of a kind in a namespace, or in all if it is empty, in no order.
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

// Terms are those of a field that any object has, in their order.
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

// Len is how many objects of a kind there are in a namespace, or in all if it is empty.
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

// Counts are how many objects of each kind there are.
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

// ControllerUID is who controls an object; empty if nobody does.
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
