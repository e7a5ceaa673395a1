package watcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// State is an immutable snapshot of the watcher, so that several reads of it are consistent.
type State struct {
	events []Event
	live   map[schema.GroupVersionResource]objects
	at     time.Time
}

// Events returns all recorded events in order.
func (s State) Events() []Event { return slices.Clone(s.events) }

// Last returns the newest event, if any.
func (s State) Last() (Event, bool) {
	if len(s.events) == 0 {
		return Event{}, false
	}
	return s.events[len(s.events)-1], true
}

// Live returns the existing objects of a resource, sorted by key.
func (s State) Live(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	live := s.live[resource]
	list := make([]*unstructured.Unstructured, 0, len(live))
	for _, key := range slices.Sorted(maps.Keys(live)) {
		list = append(list, live[key])
	}
	return list
}

// Get returns an existing object, or nil.
func (s State) Get(resource schema.GroupVersionResource, key string) *unstructured.Unstructured {
	return s.live[resource][key]
}

// History returns the events of one object in order. An object that was deleted and created again has two UIDs.
func (s State) History(resource schema.GroupVersionResource, key string) []Event {
	var history []Event
	for i := range s.events {
		if s.events[i].Resource == resource && s.events[i].Key == key {
			history = append(history, s.events[i])
		}
	}
	return history
}

// FirstObserved returns when an object was first observed in a state for which matches is true. It is used to measure
// latencies.
func (s State) FirstObserved(resource schema.GroupVersionResource, key string, matches func(Event) bool) (time.Time, bool) {
	for _, e := range s.History(resource, key) {
		if matches(e) {
			return e.ObservedAt, true
		}
	}
	return time.Time{}, false
}

const maxNames = 5

// String summarizes the state for error messages.
func (s State) String() string {
	var parts []string
	for resource, live := range s.live {
		keys := slices.Sorted(maps.Keys(live))
		names := strings.Join(keys[:min(len(keys), maxNames)], ", ")
		if len(keys) > maxNames {
			names += ", ..."
		}
		if names != "" {
			names = " (" + names + ")"
		}
		parts = append(parts, fmt.Sprintf("%d %s%s", len(keys), resource.Resource, names))
	}
	slices.Sort(parts)
	if n := len(s.events); n > 0 {
		last := s.events[n-1]
		parts = append(parts, fmt.Sprintf("last event %s, %s ago", last, s.at.Sub(last.ObservedAt).Round(time.Millisecond)))
	}
	return strings.Join(parts, "; ")
}
