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

// errStopped is what WaitFor returns when nothing can happen any more.
var errStopped = errors.New("the watcher was stopped")

// Watcher watches until its context ends or Stop is called.
type Watcher struct {
	recorder    *recorder
	watchErrors watchErrors
	stop        context.CancelFunc
	stopped     <-chan struct{}
	running     sync.WaitGroup
}

// Start watches the resources in all namespaces. It returns when everything that exists
// is known, or says at once which resource cannot be listed.
func Start(ctx context.Context, cfg *rest.Config, resources ...schema.GroupVersionResource) (*Watcher, error) {
	return StartInNamespace(ctx, cfg, metav1.NamespaceAll, resources...)
}

// StartInNamespace watches them in one namespace.
func StartInNamespace(ctx context.Context, cfg *rest.Config, namespace string, resources ...schema.GroupVersionResource) (*Watcher, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "holdfast-test-watcher"
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("start watcher: %w", err)
	}
	for _, resource := range resources {
		// A reflector would try again for ever, in silence.
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

// watch starts one reflector per resource: client-go's own loop of list, watch, resume
// and list again, which already knows all the ways in which a watch can end.
func (w *Watcher) watch(ctx context.Context, client dynamic.Interface, namespace string, resources []schema.GroupVersionResource) []*store {
	// Its complaints come back in the error of WaitFor, where they help.
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

// backoff tries often: an API server of a test is down for seconds, and what happens
// right after its return is what the test wants to see.
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

// Stop ends the watches. What was seen can still be asked for.
func (w *Watcher) Stop() {
	w.stop()
	w.running.Wait()
}

// WaitFor returns when holds is true. It looks once at the start and then after every
// event, so holds should depend on nothing but the state. The error names what was
// waited for and what was there instead.
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

// State returns all that is known now.
func (w *Watcher) State() State {
	state, _ := w.recorder.snapshot()
	return state
}

// Events returns everything that was seen up to now, in order.
func (w *Watcher) Events() []Event { return w.State().Events() }

// Live returns the objects of a resource that exist now, sorted by key.
func (w *Watcher) Live(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	return w.State().Live(resource)
}

// History returns the events of one object up to now, in order.
func (w *Watcher) History(resource schema.GroupVersionResource, key string) []Event {
	return w.State().History(resource, key)
}

// FirstObserved returns when an object was first seen in a way for which holds is true.
func (w *Watcher) FirstObserved(resource schema.GroupVersionResource, key string, matches func(Event) bool) (time.Time, bool) {
	return w.State().FirstObserved(resource, key, matches)
}
