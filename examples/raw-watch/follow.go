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

// objectVersion is what tells two states of a name apart: another version is an edit, another UID
// another object.
type objectVersion struct {
	uid     types.UID
	version string
}

// follower keeps what it needs to go on after an interruption.
type follower struct {
	api *api
	out io.Writer
	// version is where to go on. It is the server's: to be handed back as it is, not to be
	// computed with. Empty means that there is nothing to go on from.
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
			// Told to stop: the error says nothing else.
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			// The server keeps changes for minutes only. What happened since is lost; what
			// it led to is not.
			f.printf("410 Gone: too long ago to go on from, listing again")
			f.version = ""
		case err != nil:
			f.printf("interrupted: %v", err)
		default:
			f.printf("watch ended, going on from %s", f.version)
		}
		sleep(ctx, f.backoff(err))
	}
	return nil
}

func (f *follower) printf(format string, args ...any) { fmt.Fprintf(f.out, format+"\n", args...) }

// listAndWatch lists if it has to, and then watches until the watch ends.
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

// applyList finds out what happened between what is known and a complete list. A page of a
// list would not do: everything on the others would look deleted.
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
		case before.uid != app.UID: // deleted and created again, and we saw neither
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

// handleEvent is called for each event, in order.
func (f *follower) handleEvent(eventType string, app *appsapi.AppService) {
	f.failures = 0 // only what arrives is progress; a connection that opens is not
	switch eventType {
	case eventBookmark:
		// No object, only a version: what we watch was quiet, but the cluster was not, and
		// our old version may soon be too old to go on from.
		f.printf("BOOKMARK %s", app.ResourceVersion)
	case eventDeleted:
		f.remove(nameOf(app))
	default:
		f.record(eventType, app)
	}
	f.version = app.ResourceVersion // after the event was handled: before, it could be lost
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

// backoff is how long to wait before the next try: what the server asks for, else twice as
// long each time, and never as long as everybody else who lost the same server.
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
