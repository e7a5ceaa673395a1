package engine

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/explain"
)

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// How often events are asked for: those of an object after ever longer pauses, and those of
// one object of an application at a time.
const (
	minAppListInterval  = 10 * time.Second
	initialListInterval = 10 * time.Second
	maxListInterval     = 160 * time.Second
	maxEvents           = 100
)

// eventReader ask for events, and not often: who waits for something in silence must not be a burden
// to the API server.
type eventReader struct {
	apiReader client.Reader
	clock     clock.PassiveClock

	mu   sync.Mutex
	apps map[types.UID]*appEvents
}

// appEvents is what was heard about the objects of an application, and when the next of them
// may be asked about.
type appEvents struct {
	nextAllowed time.Time
	objects     map[explain.ObjectRef]objectEvents
}

// objectEvents is what was heard about an object, and when to listen again.
type objectEvents struct {
	events   []explain.Event
	nextList time.Time
	interval time.Duration
}

func newEventReader(apiReader client.Reader, c clock.PassiveClock) *eventReader {
	return &eventReader{apiReader: apiReader, clock: c, apps: map[types.UID]*appEvents{}}
}

// eventsFor returns what is said about an object, and when there may be more. What could not be
// read counts as silence: events explain, nothing depends on them.
func (e *eventReader) eventsFor(ctx context.Context, app types.UID, o explain.ObjectRef) ([]explain.Event, time.Time) {
	h, due := e.reserve(app, o)
	if !due {
		return h.events, h.nextList
	}
	h.events = e.list(ctx, o)
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.apps[app]; l != nil { // not forgotten meanwhile
		l.objects[o] = h
	}
	return h.events, h.nextList
}

// reserve is what is known about an object, and whether it is its turn to be asked about. Those
// that were asked about lately wait longer than those that never were, so each gets its turn.
func (e *eventReader) reserve(app types.UID, o explain.ObjectRef) (objectEvents, bool) {
	now := e.clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.apps[app]
	if l == nil {
		l = &appEvents{objects: map[explain.ObjectRef]objectEvents{}}
		e.apps[app] = l
	}
	h := l.objects[o]
	if now.Before(h.nextList) {
		return h, false
	}
	if now.Before(l.nextAllowed) {
		h.nextList = l.nextAllowed
		return h, false
	}
	h.interval = max(initialListInterval, min(2*h.interval, maxListInterval))
	h.nextList, l.nextAllowed = now.Add(h.interval), now.Add(minAppListInterval)
	maps.DeleteFunc(l.objects, func(_ explain.ObjectRef, old objectEvents) bool { return now.Sub(old.nextList) > maxListInterval })
	l.objects[o] = h
	return h, true
}

func (e *eventReader) list(ctx context.Context, o explain.ObjectRef) []explain.Event {
	var list corev1.EventList
	err := e.apiReader.List(ctx, &list, client.InNamespace(o.Namespace), client.Limit(maxEvents), client.MatchingFields{
		"involvedObject.kind": o.Kind, "involvedObject.name": o.Name, "involvedObject.uid": string(o.UID)})
	if err != nil {
		return nil
	}
	var all []explain.Event
	for i := range list.Items {
		all = append(all, explain.NewEvent(&list.Items[i]))
	}
	return all
}

// forget drops what was heard about an application that is gone.
func (e *eventReader) forget(app types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.apps, app)
}
