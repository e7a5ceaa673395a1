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
	betweenObjects = 10 * time.Second
	firstListen    = 10 * time.Second
	maxListen      = 160 * time.Second
	maxEvents      = 100
)

// ears ask for events, and not often: who waits for something in silence must not be a burden
// to the API server.
type ears struct {
	live  client.Reader
	clock clock.PassiveClock

	mu   sync.Mutex
	apps map[types.UID]*listener
}

// listener is what was heard about the objects of an application, and when the next of them
// may be asked about.
type listener struct {
	free  time.Time
	heard map[explain.Object]hearing
}

// hearing is what was heard about an object, and when to listen again.
type hearing struct {
	events []explain.Event
	next   time.Time
	pause  time.Duration
}

func newEars(live client.Reader, c clock.PassiveClock) *ears {
	return &ears{live: live, clock: c, apps: map[types.UID]*listener{}}
}

// about returns what is said about an object, and when there may be more. What could not be
// read counts as silence: events explain, nothing depends on them.
func (e *ears) about(ctx context.Context, app types.UID, o explain.Object) ([]explain.Event, time.Time) {
	h, ask := e.turn(app, o)
	if !ask {
		return h.events, h.next
	}
	h.events = e.list(ctx, o)
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.apps[app]; l != nil { // not forgotten meanwhile
		l.heard[o] = h
	}
	return h.events, h.next
}

// turn is what is known about an object, and whether it is its turn to be asked about. Those
// that were asked about lately wait longer than those that never were, so each gets its turn.
func (e *ears) turn(app types.UID, o explain.Object) (hearing, bool) {
	now := e.clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.apps[app]
	if l == nil {
		l = &listener{heard: map[explain.Object]hearing{}}
		e.apps[app] = l
	}
	h := l.heard[o]
	if now.Before(h.next) {
		return h, false
	}
	if now.Before(l.free) {
		h.next = l.free
		return h, false
	}
	h.pause = max(firstListen, min(2*h.pause, maxListen))
	h.next, l.free = now.Add(h.pause), now.Add(betweenObjects)
	maps.DeleteFunc(l.heard, func(_ explain.Object, old hearing) bool { return now.Sub(old.next) > maxListen })
	l.heard[o] = h
	return h, true
}

func (e *ears) list(ctx context.Context, o explain.Object) []explain.Event {
	var list corev1.EventList
	err := e.live.List(ctx, &list, client.InNamespace(o.Namespace), client.Limit(maxEvents), client.MatchingFields{
		"involvedObject.kind": o.Kind, "involvedObject.name": o.Name, "involvedObject.uid": string(o.UID)})
	if err != nil {
		return nil
	}
	var all []explain.Event
	for i := range list.Items {
		all = append(all, explain.EventOf(&list.Items[i]))
	}
	return all
}

// forget drops what was heard about an application that is gone.
func (e *ears) forget(app types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.apps, app)
}
