package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	"github.com/holdfast-dev/holdfast/client/informers/externalversions"
	informers "github.com/holdfast-dev/holdfast/client/informers/externalversions/api/v1alpha1"
	listers "github.com/holdfast-dev/holdfast/client/listers/api/v1alpha1"
)

type options struct {
	namespace, label string
	workers          int
}

// run watches until ctx ends.
func run(ctx context.Context, cfg *rest.Config, out io.Writer, o options) error {
	client, err := versioned.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	// An informer that cannot list retries forever and at most logs the error. Report a missing
	// CRD, permission or server at startup instead.
	if _, err := client.AppsV1alpha1().AppServices(o.namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("list AppServices: %w", err)
	}
	// 0 disables resync: the informer resumes interrupted watches, so replaying the cache
	// periodically has no benefit.
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0,
		externalversions.WithNamespace(o.namespace), externalversions.WithTransform(dropManagedFields))
	w := newWatcher(out, o.label)
	synced, err := w.addHandlers(factory.Apps().V1alpha1().AppServices())
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown() // waits until the informers have stopped
	defer cancel()           // stops the informers on every return
	factory.StartWithContext(ctx)
	// A worker that starts before the first list is complete would report missing objects as
	// deleted.
	if !cache.WaitFor(ctx, "", synced) {
		return nil // stopped before the first list
	}

	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for w.processNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown() // workers process the queued keys, then stop
	workers.Wait()
	return nil
}

// dropManagedFields drops fields that are never read, before they are cached: managed fields are
// often half of an object.
func dropManagedFields(obj any) (any, error) {
	if app, ok := obj.(*appsapi.AppService); ok {
		app.ManagedFields = nil
	}
	return obj, nil
}

// byLabel is the name of the index.
const byLabel = "label"

type watcher struct {
	label   string
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	lister  listers.AppServiceLister
	indexer cache.TypedIndexer[*appsapi.AppService]

	mu      sync.Mutex // for out and printed: lines of two workers must not mix
	out     io.Writer
	printed map[cache.ObjectName]string
}

func newWatcher(out io.Writer, label string) *watcher {
	return &watcher{
		label: label, out: out, printed: map[cache.ObjectName]string{},
		// Exponential backoff per key, and a limit for all keys together.
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
}

// addHandlers connects an informer with the queue. Indexes and handlers must be added before the
// start, so that they cover the first list.
func (w *watcher) addHandlers(apps informers.TypedAppServiceInformer) (cache.DoneChecker, error) {
	informer := apps.TypedInformer()
	w.lister, w.indexer = apps.Lister(), informer.GetTypedIndexer()
	err := informer.AddTypedIndexers(informers.AppServiceIndexers{byLabel: func(app *appsapi.AppService) ([]string, error) {
		if value, ok := app.Labels[w.label]; ok {
			return []string{value}, nil
		}
		return nil, nil // not in the index
	}})
	if err != nil {
		return nil, fmt.Errorf("add index: %w", err)
	}
	// Handlers run one after the other: a slow handler delays all later events. They only enqueue
	// the key. Several edits of a queued object result in one reconcile of its latest state.
	registration, err := informer.AddTypedEventHandler(informers.AppServiceHandlerFuncs{
		AddFunc:    func(app *appsapi.AppService) { w.queue.Add(cache.MetaObjectToName(app)) },
		UpdateFunc: func(_, app *appsapi.AppService) { w.queue.Add(cache.MetaObjectToName(app)) },
		// Objects that were deleted while the watch was interrupted are detected by a later list
		// and passed as a tombstone (cache.DeletedFinalStateUnknown) with the last known state, or
		// none. Only the name is certain and needed. An untyped handler calls
		// cache.DeletionHandlingObjectToName instead.
		DeleteFunc: func(app informers.DeletedAppService) { w.queue.Add(app.GetObjectName()) },
	})
	if err != nil {
		return nil, fmt.Errorf("add handler: %w", err)
	}
	// Not HasSynced of the informer, which is true once the cache is filled: this one is true once
	// the handler has received all objects.
	return registration.HasSyncedChecker(), nil
}

// processNext processes one key of the queue; false means that the queue is shut down.
func (w *watcher) processNext(ctx context.Context) bool {
	name, closed := w.queue.Get()
	if closed {
		return false
	}
	defer w.queue.Done(name) // until then no other worker gets this key
	if err := w.printState(name); err != nil {
		klog.FromContext(ctx).Error(err, "Printing failed, retrying later", "AppService", name, "failures", w.queue.NumRequeues(name)+1)
		w.queue.AddRateLimited(name)
		return true
	}
	w.queue.Forget(name) // resets its backoff
	return true
}

// printState prints the state of an AppService if it has changed. It depends on the current state
// only and not on events, so it is correct after missed events, restarts and retries.
func (w *watcher) printState(name cache.ObjectName) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	app, err := w.lister.AppServices(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return w.printDeleted(name)
	}
	if err != nil {
		return fmt.Errorf("get AppService %s: %w", name, err)
	}
	state := describe(app)
	if w.printed[name] == state {
		return nil
	}
	line := fmt.Sprintf("%s: %s", name, state)
	if value, ok := app.Labels[w.label]; ok {
		count, err := w.readyCount(value)
		if err != nil {
			return err
		}
		line += count
	}
	if _, err := fmt.Fprintln(w.out, line); err != nil {
		return fmt.Errorf("print AppService %s: %w", name, err)
	}
	w.printed[name] = state // only after it was printed
	return nil
}

func (w *watcher) printDeleted(name cache.ObjectName) error {
	if _, ok := w.printed[name]; !ok {
		return nil // created and deleted between two reconciles
	}
	if _, err := fmt.Fprintf(w.out, "%s: deleted\n", name); err != nil {
		return fmt.Errorf("print AppService %s: %w", name, err)
	}
	delete(w.printed, name)
	return nil
}

// readyCount uses the index, whose cost does not depend on the number of AppServices in the cache.
func (w *watcher) readyCount(value string) (string, error) {
	apps, err := w.indexer.ByTypedIndex(byLabel, value)
	if err != nil {
		return "", fmt.Errorf("look up %s=%s: %w", w.label, value, err)
	}
	ready := 0
	for _, app := range apps { // cached objects must not be changed
		if meta.IsStatusConditionTrue(app.Status.Conditions, appsapi.ConditionReady) {
			ready++
		}
	}
	return fmt.Sprintf(" (%s=%s: %d of %d ready)", w.label, value, ready, len(apps)), nil
}

// describe returns a short description of an AppService.
func describe(app *appsapi.AppService) string {
	ready := meta.FindStatusCondition(app.Status.Conditions, appsapi.ConditionReady)
	switch {
	case app.DeletionTimestamp != nil:
		return "being deleted"
	case ready == nil:
		return "not observed by the operator yet"
	case ready.ObservedGeneration != app.Generation:
		// The condition describes an earlier spec.
		return "edited, not observed by the operator yet"
	case ready.Status == metav1.ConditionTrue:
		return "ready, " + app.Status.ReplicasReady
	}
	return fmt.Sprintf("not ready, %s: %s", ready.Reason, ready.Message)
}
