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
		return fmt.Errorf("make client: %w", err)
	}
	// An informer that cannot list tries for ever and says so in the log at best. A missing
	// CRD, permission or server is better heard of at the start.
	if _, err := client.AppsV1alpha1().AppServices(o.namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("list AppServices: %w", err)
	}
	// 0 is no resync: the informer resumes a watch that ends, so replaying the cache now and
	// then would bring nothing new.
	factory := externalversions.NewSharedInformerFactoryWithOptions(client, 0,
		externalversions.WithNamespace(o.namespace), externalversions.WithTransform(dropManagedFields))
	w := newWatcher(out, o.label)
	synced, err := w.addHandlers(factory.Apps().V1alpha1().AppServices())
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown() // waits until the informers have ended
	defer cancel()           // which they do now, however we return
	factory.StartWithContext(ctx)
	// A worker that looks before the first list is complete would call what it does not
	// find deleted.
	if !cache.WaitFor(ctx, "", synced) {
		return nil // told to stop before it began
	}

	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for w.processNext(ctx) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown() // workers finish what is in the queue, then end
	workers.Wait()
	return nil
}

// dropManagedFields drops what nobody here reads before it is kept: managed fields are often half of an
// object.
func dropManagedFields(obj any) (any, error) {
	if app, ok := obj.(*appsapi.AppService); ok {
		app.ManagedFields = nil
	}
	return obj, nil
}

// byLabel is the name of our index.
const byLabel = "label"

type watcher struct {
	label   string
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	lister  listers.AppServiceLister
	indexer cache.TypedIndexer[*appsapi.AppService]

	mu      sync.Mutex // of both: lines of two workers must not mix
	out     io.Writer
	printed map[cache.ObjectName]string
}

func newWatcher(out io.Writer, label string) *watcher {
	return &watcher{
		label: label, out: out, printed: map[cache.ObjectName]string{},
		// Waits longer after each failure of the same key, and limits all of them together.
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
}

// addHandlers makes an informer fill the queue. Indexes and handlers come before the start: the
// first list goes through them too.
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
	// Handlers are called one after the other: one that works or waits here holds up all
	// events behind it. They only say which object to look at. Ten edits of an object
	// while it waits in the queue become one look at its latest state.
	registration, err := informer.AddTypedEventHandler(informers.AppServiceHandlerFuncs{
		AddFunc:    func(app *appsapi.AppService) { w.queue.Add(cache.MetaObjectToName(app)) },
		UpdateFunc: func(_, app *appsapi.AppService) { w.queue.Add(cache.MetaObjectToName(app)) },
		// What was deleted while the watch was interrupted is noticed by a later list, and
		// comes as a tombstone (cache.DeletedFinalStateUnknown): an old state of the
		// object, or none. The name is all that is certain, and all that is needed. A
		// handler without types calls cache.DeletionHandlingObjectToName instead.
		DeleteFunc: func(app informers.DeletedAppService) { w.queue.Add(app.GetObjectName()) },
	})
	if err != nil {
		return nil, fmt.Errorf("add handler: %w", err)
	}
	// Not the informer's own: that is true when the cache is full, this one when the
	// handler has heard of everything in it.
	return registration.HasSyncedChecker(), nil
}

// processNext takes one key from the queue; false means that there will be none.
func (w *watcher) processNext(ctx context.Context) bool {
	name, closed := w.queue.Get()
	if closed {
		return false
	}
	defer w.queue.Done(name) // until then no other worker gets this key
	if err := w.printState(name); err != nil {
		klog.FromContext(ctx).Error(err, "Tried again later", "AppService", name, "failures", w.queue.NumRequeues(name)+1)
		w.queue.AddRateLimited(name)
		return true
	}
	w.queue.Forget(name) // its next failure is a first one again
	return true
}

// printState prints what became of one AppService, if it is something new. It does not ask what
// happened, only what is: that is right after a missed event, a restart and a retry alike.
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
	w.printed[name] = state // only now: a line that was not printed is not shown
	return nil
}

func (w *watcher) printDeleted(name cache.ObjectName) error {
	if _, ok := w.printed[name]; !ok {
		return nil // came and went before anybody looked
	}
	if _, err := fmt.Fprintf(w.out, "%s: deleted\n", name); err != nil {
		return fmt.Errorf("print AppService %s: %w", name, err)
	}
	delete(w.printed, name)
	return nil
}

// readyCount asks the index, which costs the same with ten AppServices in the cache and with
// ten thousand.
func (w *watcher) readyCount(value string) (string, error) {
	apps, err := w.indexer.ByTypedIndex(byLabel, value)
	if err != nil {
		return "", fmt.Errorf("look up %s=%s: %w", w.label, value, err)
	}
	ready := 0
	for _, app := range apps { // of the cache: to be read, never to be changed
		if meta.IsStatusConditionTrue(app.Status.Conditions, appsapi.ConditionReady) {
			ready++
		}
	}
	return fmt.Sprintf(" (%s=%s: %d of %d ready)", w.label, value, ready, len(apps)), nil
}

// describe is an AppService in a few words.
func describe(app *appsapi.AppService) string {
	ready := meta.FindStatusCondition(app.Status.Conditions, appsapi.ConditionReady)
	switch {
	case app.DeletionTimestamp != nil:
		return "being deleted"
	case ready == nil:
		return "not seen by the operator yet"
	case ready.ObservedGeneration != app.Generation:
		// True or not, it is about a spec that is no longer wanted.
		return "edited, the operator has not seen it yet"
	case ready.Status == metav1.ConditionTrue:
		return "ready, " + app.Status.ReplicasReady
	}
	return fmt.Sprintf("not ready, %s: %s", ready.Reason, ready.Message)
}
