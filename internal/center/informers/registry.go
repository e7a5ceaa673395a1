// Package informers runs one informer per resource and namespace. An informer starts when its first holder
// acquires it and stops when its last holder releases it. Each informer reports its state.
//
// Safety rule: an interrupted informer is Stale, and becomes Live again only after a complete list, so that
// deleted objects are never reported as existing. Informers only list and watch, and never read Secrets.
package informers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// Key identifies an informer. An empty namespace means all namespaces.
type Key struct {
	Resource  schema.GroupVersionResource
	Namespace string
}

func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource.GroupResource().String()
	}
	return fmt.Sprintf("%s in %s", k.Resource.GroupResource(), k.Namespace)
}

// Sink receives the objects of informers. Calls for one kind and namespace are sequential, and all objects
// have their GroupVersionKind set.
type Sink interface {
	// Replace sets all objects of a kind in a namespace. An empty namespace means all namespaces.
	Replace(kind schema.GroupVersionKind, namespace string, all []runtime.Object)
	Set(runtime.Object)
	Delete(runtime.Object)
	// Len returns the number of objects of a kind in a namespace. An empty namespace means all namespaces.
	Len(kind schema.GroupKind, namespace string) int
}

// Options configures a registry.
type Options struct {
	// Config is the client configuration.
	Config *rest.Config
	Sink   Sink
	// Project reduces an object before it is stored.
	Project func(runtime.Object) runtime.Object
	// OnStateChange is called, if set, when the state of an informer has changed.
	OnStateChange func(Status)
	Clock         clock.Clock
	// RetryInterval is the maximum retry delay after access was denied. Default: 30 s.
	RetryInterval time.Duration
}

// Registry runs informers.
type Registry struct {
	Options
	http   *http.Client
	scheme *runtime.Scheme

	mu        sync.Mutex
	runCtx    context.Context //nolint:containedctx // informers are started and stopped while Run is running
	wg        sync.WaitGroup
	informers map[Key]*informer
	holders   map[Key]map[string]bool
	kinds     map[Key]Kind
	// stopping contains informers that are being stopped. A new informer of the same key waits for its
	// predecessor; otherwise the predecessor would clear the objects of the new one.
	stopping map[Key]chan struct{}
}

// New returns a registry. It does nothing until Run is called.
func New(o Options) (*Registry, error) {
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS = -1 // few requests; API Priority and Fairness limits them
	if o.RetryInterval == 0 {
		o.RetryInterval = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	httpClient, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("create an HTTP client: %w", err)
	}
	return &Registry{Options: o, http: httpClient, scheme: newScheme(),
		informers: map[Key]*informer{}, holders: map[Key]map[string]bool{},
		kinds: map[Key]Kind{}, stopping: map[Key]chan struct{}{}}, nil
}

// Run runs the acquired informers until the context ends, and waits until all have stopped.
func (r *Registry) Run(ctx context.Context) {
	r.mu.Lock()
	r.runCtx = ctx
	for key := range r.kinds {
		r.start(key)
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.wg.Wait()
}

// Acquire starts an informer for a holder. It runs until all holders have released it.
func (r *Registry) Acquire(holder string, kind Kind, namespace string) {
	key := Key{Resource: kind.gvr(), Namespace: namespace}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders[key] == nil {
		r.holders[key] = map[string]bool{}
	}
	r.holders[key][holder] = true
	if _, ok := r.kinds[key]; ok {
		return
	}
	r.kinds[key] = kind
	r.start(key)
}

// Release reverts Acquire. An informer without holders is stopped and its objects are removed.
func (r *Registry) Release(holder string, kind Kind, namespace string) {
	r.release(holder, Key{Resource: kind.gvr(), Namespace: namespace})
}

func (r *Registry) release(holder string, key Key) {
	r.mu.Lock()
	delete(r.holders[key], holder)
	i := r.informers[key]
	if len(r.holders[key]) > 0 {
		r.mu.Unlock()
		return
	}
	delete(r.holders, key)
	delete(r.kinds, key)
	delete(r.informers, key)
	if i != nil {
		r.stopping[key] = i.done
	}
	r.mu.Unlock()
	if i != nil {
		i.cancel()
	}
}

// informerStopped records that an informer has stopped.
func (r *Registry) informerStopped(i *informer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping[i.key] == i.done {
		delete(r.stopping, i.key)
	}
}

// start starts an informer if the registry is running.
func (r *Registry) start(key Key) {
	if r.runCtx == nil || r.runCtx.Err() != nil || r.informers[key] != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.runCtx)
	i := &informer{registry: r, key: key, kind: r.kinds[key], cancel: cancel, predecessorDone: r.stopping[key], done: make(chan struct{})}
	delete(r.stopping, key)
	i.status = Status{Key: key, State: Syncing, Since: r.Clock.Now()}
	r.informers[key] = i
	r.wg.Go(func() { i.run(ctx) })
}

// Informers returns the status of all informers, sorted by resource.
func (r *Registry) Informers() []Status {
	r.mu.Lock()
	all := make([]*informer, 0, len(r.informers))
	for _, i := range r.informers {
		all = append(all, i)
	}
	r.mu.Unlock()
	out := make([]Status, 0, len(all))
	for _, i := range all {
		st := i.Status()
		st.Objects = i.sink().Len(i.kind.GroupKind(), i.key.Namespace)
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Key.Resource.String(), b.Key.Resource.String()), cmp.Compare(a.Key.Namespace, b.Key.Namespace))
	})
	return out
}

// State returns the state of the informer for a namespace, or else of the one for all namespaces. It returns ""
// if there is none.
func (r *Registry) State(resource schema.GroupVersionResource, namespace string) State {
	r.mu.Lock()
	i := r.informers[Key{Resource: resource, Namespace: namespace}]
	if i == nil {
		i = r.informers[Key{Resource: resource}]
	}
	r.mu.Unlock()
	if i == nil {
		return ""
	}
	return i.Status().State
}

// Synced reports whether every informer has synced once or cannot read its resource.
func (r *Registry) Synced() bool {
	return !slices.ContainsFunc(r.Informers(), func(s Status) bool { return s.State == Syncing })
}
