package reconcile

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

// Limits for listing events. The interval of one object doubles with every list, and each application
// lists the events of one object at a time.
const (
	minAppListInterval  = 10 * time.Second
	initialListInterval = 10 * time.Second
	maxListInterval     = 160 * time.Second
	maxEvents           = 100
)

// eventReader lists the events of objects from the API server, rate limited.
type eventReader struct {
	apiReader client.Reader
	clock     clock.PassiveClock

	mu   sync.Mutex
	apps map[types.UID]*appEvents
}

// appEvents are the events of the objects of an application, and when the next list is allowed.
type appEvents struct {
	nextAllowed time.Time
	objects     map[explain.ObjectRef]objectEvents
}

// objectEvents are the events of one object, and when to list them again.
type objectEvents struct {
	events   []explain.Event
	nextList time.Time
	interval time.Duration
}

func newEventReader(apiReader client.Reader, c clock.PassiveClock) *eventReader {
	return &eventReader{apiReader: apiReader, clock: c, apps: map[types.UID]*appEvents{}}
}

// eventsFor returns the events of an object and when to list them again. Errors count as no events:
// events only improve an explanation.
func (e *eventReader) eventsFor(ctx context.Context, app types.UID, o explain.ObjectRef) ([]explain.Event, time.Time) {
	h, due := e.knownEventsOrReserve(app, o)
	if !due {
		return h.events, h.nextList
	}
	h.events = e.listEvents(ctx, o)
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.apps[app]; l != nil { // not forgotten meanwhile
		l.objects[o] = h
	}
	return h.events, h.nextList
}

// knownEventsOrReserve returns the known events of an object. The second result is true if the caller
// must list the events now; a slot of the rate limit is then reserved for it. Recently listed objects
// wait longer than new ones, so that every object is listed eventually.
func (e *eventReader) knownEventsOrReserve(app types.UID, o explain.ObjectRef) (objectEvents, bool) {
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

func (e *eventReader) listEvents(ctx context.Context, o explain.ObjectRef) []explain.Event {
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

// forget drops the events of a deleted application.
func (e *eventReader) forget(app types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.apps, app)
}
