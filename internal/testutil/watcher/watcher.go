package watcher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// errStopped is returned by WaitFor after Stop.
var errStopped = errors.New("the watcher was stopped")

// Watcher watches until its context ends or Stop is called.
type Watcher struct {
	recorder    *recorder
	watchErrors watchErrors
	stop        context.CancelFunc
	stopped     <-chan struct{}
	running     sync.WaitGroup
}

// Start watches the resources in all namespaces. It returns when all existing objects are known, or an error if a
// resource cannot be listed.
func Start(ctx context.Context, cfg *rest.Config, resources ...schema.GroupVersionResource) (*Watcher, error) {
	return StartInNamespace(ctx, cfg, metav1.NamespaceAll, resources...)
}

// StartInNamespace watches the resources in one namespace.
func StartInNamespace(ctx context.Context, cfg *rest.Config, namespace string, resources ...schema.GroupVersionResource) (*Watcher, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "holdfast-test-watcher"
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	for _, resource := range resources {
		// A reflector would retry forever without an error.
		if _, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return nil, fmt.Errorf("start watcher: list %s: %w", resource.GroupResource(), err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &Watcher{recorder: newRecorder(resources, time.Now), stop: cancel, stopped: ctx.Done()}
	for _, s := range w.watch(ctx, client, namespace, resources) {
		select {
		case <-s.synced:
		case <-ctx.Done():
			w.Stop()
			return nil, fmt.Errorf("start watcher: list %s: %w%s", s.resource.GroupResource(), ctx.Err(), &w.watchErrors)
		}
	}
	return w, nil
}

// watch starts one reflector of client-go per resource, which lists, watches and resumes.
func (w *Watcher) watch(ctx context.Context, client dynamic.Interface, namespace string, resources []schema.GroupVersionResource) []*store {
	// Its errors are included in the error of WaitFor.
	ctx = klog.NewContext(ctx, klog.New(nil))
	stores := make([]*store, 0, len(resources))
	for _, resource := range resources {
		s := &store{recorder: w.recorder, resource: resource, synced: make(chan struct{})}
		reflector := cache.NewReflectorWithOptions(w.listWatch(client.Resource(resource).Namespace(namespace), resource), &unstructured.Unstructured{}, s,
			cache.ReflectorOptions{Name: "watcher", TypeDescription: resource.String(), Backoff: backoff()})
		w.running.Go(func() { reflector.RunWithContext(ctx) })
		stores = append(stores, s)
	}
	return stores
}

// backoff retries quickly: the API server of a test is down for seconds, and the test needs the events right after its
// restart.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.1, Cap: time.Second, Steps: math.MaxInt32}
}

func (w *Watcher) listWatch(client dynamic.ResourceInterface, resource schema.GroupVersionResource) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := client.List(ctx, o)
			return list, w.watchErrors.record(resource, err)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			stream, err := client.Watch(ctx, o)
			return stream, w.watchErrors.record(resource, err)
		},
	}
}

// Stop stops the watches. The recorded state can still be read.
func (w *Watcher) Stop() {
	w.stop()
	w.running.Wait()
}

// WaitFor waits until condition is true. It is evaluated at the start and after every event, so it must depend only on
// the state. The error contains what and the last state.
func (w *Watcher) WaitFor(ctx context.Context, what string, condition func(State) bool) error {
	for {
		state, changed := w.recorder.snapshot()
		if condition(state) {
			return nil
		}
		var err error
		select {
		case <-changed:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-w.stopped:
			err = errStopped
		}
		return fmt.Errorf("wait for %s: %w; seen: %s%s", what, err, state, &w.watchErrors)
	}
}

// State returns the current state.
func (w *Watcher) State() State {
	state, _ := w.recorder.snapshot()
	return state
}

// Events returns all events recorded so far, in order.
func (w *Watcher) Events() []Event { return w.State().Events() }

// Live returns the existing objects of a resource, sorted by key.
func (w *Watcher) Live(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	return w.State().Live(resource)
}

// History returns the events of one object so far, in order.
func (w *Watcher) History(resource schema.GroupVersionResource, key string) []Event {
	return w.State().History(resource, key)
}

// FirstObserved returns when an object was first observed in a state for which matches is true.
func (w *Watcher) FirstObserved(resource schema.GroupVersionResource, key string, matches func(Event) bool) (time.Time, bool) {
	return w.State().FirstObserved(resource, key, matches)
}
