package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// The names of our indexes.
const (
	byLabel = "label" // "team=blue"
	byOwner = "owner" // a UID
)

// watch is one informer with an end of its own. A shared informer factory does not fit: it
// starts informers, and then keeps them until all of them end.
type watch struct {
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

type say func(format string, args ...any)

func start(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, namespace string, say say) (*watch, error) {
	indexers := cache.Indexers{byLabel: labelsOf, byOwner: ownersOf}
	w := &watch{informer: metadatainformer.NewFilteredMetadataInformer(client, resource, namespace, 0, indexers, nil).Informer()}
	name := format(resource)
	registration, err := w.informer.AddEventHandler(handler(name, say))
	if err == nil {
		err = w.informer.SetWatchErrorHandlerWithContext(troubles(name, say))
	}
	if err == nil {
		err = w.informer.SetTransform(slim)
	}
	if err != nil {
		return nil, fmt.Errorf("set up informer: %w", err)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.running.Go(func() { w.informer.RunWithContext(ctx) })
	// Nobody waits for this: a resource that cannot be listed must not hold up the others.
	w.running.Go(func() {
		if synced(ctx, registration.HasSyncedChecker(), func() { say("%s: no answer yet, tried on", name) }) {
			say("%s: watching, %d there", name, len(w.informer.GetIndexer().ListKeys()))
		}
	})
	return w, nil
}

// synced waits for the first list. Of a server that cannot be reached the informer says
// nothing at all, so somebody else has to: tell is called once if it takes long.
func synced(ctx context.Context, done cache.DoneChecker, tell func()) bool {
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if cache.WaitFor(soon, "", done) {
		return true
	}
	if ctx.Err() == nil {
		tell()
	}
	return cache.WaitFor(ctx, "", done)
}

// stop returns when the last event was handled.
func (w *watch) stop() {
	w.cancel()
	w.running.Wait()
}

// handler prints at once. That is all right for a line; what can fail or take its time
// belongs behind a queue, as in watch-appservices.
func handler(name string, say say) cache.ResourceEventHandler {
	tell := func(what string, obj any) {
		// Understands tombstones, which come for what was deleted during an interruption.
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			say("%s: %s %s", name, what, key)
		}
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList { // those are counted in one line
				tell("added", obj)
			}
		},
		UpdateFunc: func(before, obj any) {
			// After an interruption everything is listed again, changed or not.
			if version(before) != version(obj) {
				tell("changed", obj)
			}
		},
		DeleteFunc: func(obj any) { tell("deleted", obj) },
	}
}

// troubles says why nothing comes. The informer itself tries on, less and less often: the
// CRD may be installed and the permission given while we wait.
func troubles(name string, say say) cache.WatchErrorHandlerWithContext {
	last := ""
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		text := ""
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return // the ordinary end of a watch, or of all
		case apierrors.IsNotFound(err):
			text = "there is no such resource"
		case apierrors.IsForbidden(err):
			text = "forbidden: " + err.Error()
		default:
			text = "interrupted: " + err.Error()
		}
		if text != last {
			say("%s: %s", name, text)
		}
		last = text
	}
}

// slim drops what we never read before it is kept.
func slim(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
	}
	return obj, nil
}

func version(obj any) string {
	if o, ok := obj.(metav1.Object); ok {
		return o.GetResourceVersion()
	}
	return ""
}

// labelsOf indexes an object under each of its labels.
func labelsOf(obj any) (values []string, err error) {
	if o, ok := obj.(metav1.Object); ok {
		for k, v := range o.GetLabels() {
			values = append(values, k+"="+v)
		}
	}
	return values, nil
}

// ownersOf indexes an object under each of its owners.
func ownersOf(obj any) (values []string, err error) {
	if o, ok := obj.(metav1.Object); ok {
		for _, owner := range o.GetOwnerReferences() {
			values = append(values, string(owner.UID))
		}
	}
	return values, nil
}
