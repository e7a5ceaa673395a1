package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

type options struct {
	namespace    string
	pageSize     int
	watchTimeout time.Duration
}

// objectVersion distinguishes states of an object: another version means an edit, another UID means
// a recreated object.
type objectVersion struct {
	uid     types.UID
	version string
}

// follower has the state that it needs to resume after an interruption.
type follower struct {
	api *api
	out io.Writer
	// version is where to resume. It is opaque and must only be sent back to the server. Empty
	// means that a list is needed.
	version  string
	known    map[types.NamespacedName]objectVersion
	failures int
}

// run follows until ctx ends.
func run(ctx context.Context, cfg *rest.Config, out io.Writer, o options) error {
	api, err := newAPI(cfg, o)
	if err != nil {
		return err
	}
	f := &follower{api: api, out: out, known: map[types.NamespacedName]objectVersion{}}
	for ctx.Err() == nil {
		err := f.listAndWatch(ctx)
		switch {
		case ctx.Err() != nil:
			// The program is stopping; the error is only a consequence.
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			// The server keeps events for minutes only. Intermediate changes are lost, but not
			// their result.
			f.printf("410 Gone: version is too old, listing again")
			f.version = ""
		case err != nil:
			f.printf("interrupted: %v", err)
		default:
			f.printf("watch ended, resuming from %s", f.version)
		}
		sleep(ctx, f.backoff(err))
	}
	return nil
}

func (f *follower) printf(format string, args ...any) { fmt.Fprintf(f.out, format+"\n", args...) }

// listAndWatch lists if necessary, and then watches until the watch ends.
func (f *follower) listAndWatch(ctx context.Context) error {
	if f.version == "" {
		items, version, err := f.api.list(ctx)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		f.printf("listed %d at %s", len(items), version)
		f.applyList(items)
		f.version = version
	}
	return f.api.watch(ctx, f.version, f.handleEvent)
}

// applyList derives the changes between the known state and a complete list. A single page is not
// enough: objects on other pages would look deleted.
func (f *follower) applyList(items []appsapi.AppService) {
	gone := maps.Clone(f.known)
	for i := range items {
		app := &items[i]
		name := nameOf(app)
		before, ok := f.known[name]
		delete(gone, name)
		switch {
		case !ok:
			f.record("ADDED", app)
		case before.uid != app.UID: // deleted and recreated, without observed events
			f.remove(name)
			f.record("ADDED", app)
		case before.version != app.ResourceVersion:
			f.record("MODIFIED", app)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(gone), func(a, b types.NamespacedName) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	}) {
		f.remove(name)
	}
}

// handleEvent handles the events in order.
func (f *follower) handleEvent(eventType string, app *appsapi.AppService) {
	f.failures = 0 // only received events are progress; an open connection is not
	switch eventType {
	case eventBookmark:
		// A bookmark has no object, only a version: the watched objects did not change, but other
		// objects did, and the old version may soon expire.
		f.printf("BOOKMARK %s", app.ResourceVersion)
	case eventDeleted:
		f.remove(nameOf(app))
	default:
		f.record(eventType, app)
	}
	f.version = app.ResourceVersion // after the event was handled; otherwise it could be lost
}

func (f *follower) record(eventType string, app *appsapi.AppService) {
	f.known[nameOf(app)] = objectVersion{uid: app.UID, version: app.ResourceVersion}
	f.printf("%s %s %s", eventType, nameOf(app), app.Spec.Image)
}

func (f *follower) remove(name types.NamespacedName) {
	delete(f.known, name)
	f.printf("DELETED %s", name)
}

func nameOf(app *appsapi.AppService) types.NamespacedName {
	return types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
}

// backoff returns the time until the next attempt: the delay that the server asks for, or
// exponential backoff with jitter, so that clients do not reconnect at the same time.
func (f *follower) backoff(err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	wait := min(100*time.Millisecond<<min(f.failures, 10), 30*time.Second)
	f.failures++
	return wait/2 + rand.N(wait)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
