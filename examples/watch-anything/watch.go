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

// watch is one informer that can be stopped. A shared informer factory does not fit: it stops its
// informers only all together.
type watch struct {
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

type printFunc func(format string, args ...any)

func startWatch(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource, namespace string, printf printFunc) (*watch, error) {
	indexers := cache.Indexers{byLabel: labelsOf, byOwner: ownersOf}
	w := &watch{informer: metadatainformer.NewFilteredMetadataInformer(client, resource, namespace, 0, indexers, nil).Informer()}
	name := formatResource(resource)
	registration, err := w.informer.AddEventHandler(eventHandler(name, printf))
	if err == nil {
		err = w.informer.SetWatchErrorHandlerWithContext(watchErrorHandler(name, printf))
	}
	if err == nil {
		err = w.informer.SetTransform(dropUnusedMetadata)
	}
	if err != nil {
		return nil, fmt.Errorf("set up informer: %w", err)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.running.Go(func() { w.informer.RunWithContext(ctx) })
	// In the background: a resource that cannot be listed must not block the others.
	w.running.Go(func() {
		if waitForSync(ctx, registration.HasSyncedChecker(), func() { printf("%s: no response yet, retrying", name) }) {
			printf("%s: watching, objects: %d", name, len(w.informer.GetIndexer().ListKeys()))
		}
	})
	return w, nil
}

// waitForSync waits for the first list. The informer does not report an unreachable server, so
// onSlow is called once if the list takes long.
func waitForSync(ctx context.Context, done cache.DoneChecker, onSlow func()) bool {
	slowCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if cache.WaitFor(slowCtx, "", done) {
		return true
	}
	if ctx.Err() == nil {
		onSlow()
	}
	return cache.WaitFor(ctx, "", done)
}

// stop returns after the last event was handled.
func (w *watch) stop() {
	w.cancel()
	w.running.Wait()
}

// eventHandler prints immediately. That is fine for a line of output; work that can fail or take
// long belongs in a queue, as in watch-appservices.
func eventHandler(name string, printf printFunc) cache.ResourceEventHandler {
	report := func(action string, obj any) {
		// Handles tombstones, which represent objects that were deleted during an interruption.
		if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
			printf("%s: %s %s", name, action, key)
		}
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if !isInInitialList { // they are counted in one line
				report("added", obj)
			}
		},
		UpdateFunc: func(before, obj any) {
			// After an interruption all objects are listed again, changed or not.
			if resourceVersion(before) != resourceVersion(obj) {
				report("changed", obj)
			}
		},
		DeleteFunc: func(obj any) { report("deleted", obj) },
	}
}

// watchErrorHandler reports why there are no events. The informer retries with backoff: the CRD may
// be installed, or the permission granted, later.
func watchErrorHandler(name string, printf printFunc) cache.WatchErrorHandlerWithContext {
	last := ""
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		text := ""
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return // the normal end of a watch, or of the program
		case apierrors.IsNotFound(err):
			text = "resource not found"
		case apierrors.IsForbidden(err):
			text = "forbidden: " + err.Error()
		default:
			text = "interrupted: " + err.Error()
		}
		if text != last {
			printf("%s: %s", name, text)
		}
		last = text
	}
}

// dropUnusedMetadata drops fields that are never read, before they are cached.
func dropUnusedMetadata(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
	}
	return obj, nil
}

func resourceVersion(obj any) string {
	if o, ok := obj.(metav1.Object); ok {
		return o.GetResourceVersion()
	}
	return ""
}

// labelsOf indexes an object by each of its labels.
func labelsOf(obj any) (values []string, err error) {
	if o, ok := obj.(metav1.Object); ok {
		for k, v := range o.GetLabels() {
			values = append(values, k+"="+v)
		}
	}
	return values, nil
}

// ownersOf indexes an object by the UID of each of its owners.
func ownersOf(obj any) (values []string, err error) {
	if o, ok := obj.(metav1.Object); ok {
		for _, owner := range o.GetOwnerReferences() {
			values = append(values, string(owner.UID))
		}
	}
	return values, nil
}
