package watcher

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Event is one change of one object.
type Event struct {
	ObservedAt      time.Time
	Type            watch.EventType // Added, Modified or Deleted
	Resource        schema.GroupVersionResource
	Key             string // namespace/name, or the name alone
	UID             types.UID
	ResourceVersion string
	// Object is the object after the change, or the last observed state of a deleted one. It is shared: do not modify
	// it.
	Object *unstructured.Unstructured
	// FromList means that the change was found in a list instead of a watch: at the start, or after an interruption that
	// may have hidden earlier changes.
	FromList bool
}

func (e Event) String() string {
	return fmt.Sprintf("%s %s %s at %s", e.Type, e.Resource.Resource, e.Key, e.ResourceVersion)
}

// recorder records the events of all resources in one order, and the live objects.
type recorder struct {
	now func() time.Time

	mu      sync.Mutex
	events  []Event // append-only: a State holds a part of it
	live    map[schema.GroupVersionResource]objects
	shared  map[schema.GroupVersionResource]bool // the map in live is also used by a State
	changed chan struct{}                        // closed at the next event
}

type objects map[string]*unstructured.Unstructured

func newRecorder(resources []schema.GroupVersionResource, now func() time.Time) *recorder {
	r := &recorder{
		now:     now,
		live:    map[schema.GroupVersionResource]objects{},
		shared:  map[schema.GroupVersionResource]bool{},
		changed: make(chan struct{}),
	}
	for _, resource := range resources {
		r.live[resource] = objects{}
	}
	return r
}

// snapshot returns the current state and a channel that is closed when it changes. It does not copy the maps: the next
// event copies the map that it changes.
func (r *recorder) snapshot() (State, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for resource := range r.live {
		r.shared[resource] = true
	}
	return State{events: slices.Clip(r.events), live: maps.Clone(r.live), at: r.now()}, r.changed
}

// record appends a change of one object. The caller holds the lock.
func (r *recorder) record(t watch.EventType, resource schema.GroupVersionResource, o *unstructured.Unstructured, fromList bool) {
	if r.shared[resource] {
		r.live[resource] = maps.Clone(r.live[resource])
		r.shared[resource] = false
	}
	key := keyOf(o)
	if t == watch.Deleted {
		delete(r.live[resource], key)
	} else {
		r.live[resource][key] = o
	}
	r.events = append(r.events, Event{
		ObservedAt: r.now(), Type: t, Resource: resource, Key: key,
		UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Object: o, FromList: fromList,
	})
	close(r.changed)
	r.changed = make(chan struct{})
}

func keyOf(o *unstructured.Unstructured) string {
	return cache.MetaObjectToName(o).String()
}

// store receives the events of one resource from its reflector.
type store struct {
	*recorder
	resource schema.GroupVersionResource
	synced   chan struct{}
	once     sync.Once
}

var _ cache.ReflectorStore = (*store)(nil)

// Add records a new object.
func (s *store) Add(o any) error { return s.recordObject(watch.Added, o) }

// Update records a changed object.
func (s *store) Update(o any) error { return s.recordObject(watch.Modified, o) }

// Delete records a deleted object.
func (s *store) Delete(o any) error { return s.recordObject(watch.Deleted, o) }

// Resync does nothing.
func (s *store) Resync() error { return nil }

func (s *store) recordObject(t watch.EventType, o any) error {
	obj, ok := o.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch %s: got a %T", s.resource, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(t, s.resource, obj, false)
	return nil
}

// Replace gets all objects at the start and when a watch could not be resumed. It records the differences in the order
// of the keys.
func (s *store) Replace(list []any, _ string) error {
	listed := objects{}
	for _, o := range list {
		obj, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("list %s: got a %T", s.resource, o)
		}
		listed[keyOf(obj)] = obj
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := maps.Clone(s.live[s.resource])
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if now, ok := listed[key]; !ok || now.GetUID() != before[key].GetUID() {
			s.record(watch.Deleted, s.resource, before[key], true)
			delete(before, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(listed)) {
		was, ok := before[key]
		switch {
		case !ok:
			s.record(watch.Added, s.resource, listed[key], true)
		case was.GetResourceVersion() != listed[key].GetResourceVersion():
			s.record(watch.Modified, s.resource, listed[key], true)
		}
	}
	s.once.Do(func() { close(s.synced) })
	return nil
}
