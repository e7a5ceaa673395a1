// Package informers runs informers: one per resource and namespace, started when somebody first
// wants it and stopped when nobody does any more, or when the resource itself goes. Each says
// how it is.
//
// Safety rule: what is not heard any more is called Stale, and Live again only after everything
// was read anew: nothing that is gone is ever shown as being there. It only lists and watches,
// and Secrets not even that.
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

// Key names an informer. Without a namespace it is for all of them.
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

// Sink takes what informers see. The calls for one kind and namespace come one after the other,
// and objects carry their kind.
type Sink interface {
	// Replace says that these are all objects of a kind, in a namespace or, if it is empty, in all.
	Replace(kind schema.GroupVersionKind, namespace string, all []runtime.Object)
	Set(runtime.Object)
	Delete(runtime.Object)
	// Len is how many objects it has of a kind, in a namespace or, if it is empty, in all.
	Len(kind schema.GroupKind, namespace string) int
}

// Options of a registry.
type Options struct {
	// Config reaches the API server.
	Config *rest.Config
	Sink   Sink
	// Project makes of an object what is worth keeping, on the way in.
	Project func(runtime.Object) runtime.Object
	// OnStateChange is told, if it is there, when the state of an informer is another one.
	OnStateChange func(Status)
	Clock         clock.Clock
	// RetryInterval is how long after a refusal access is asked for again.
	RetryInterval time.Duration
}

// Registry runs informers.
type Registry struct {
	Options
	http   *http.Client
	scheme *runtime.Scheme

	mu        sync.Mutex
	runCtx    context.Context //nolint:containedctx // informers come and go for as long as Run runs
	wg        sync.WaitGroup
	informers map[Key]*informer
	holders   map[Key]map[string]bool
	kinds     map[Key]Kind
	// stopping are informers that are being stopped. One that is wanted again meanwhile waits, or
	// the end of the first would take away what the second has read.
	stopping map[Key]chan struct{}
}

// New makes a registry. It does nothing before Run.
func New(o Options) (*Registry, error) {
	o.Config = rest.CopyConfig(o.Config)
	o.Config.QPS = -1 // a handful of watches; the API server's own fairness is the limit
	if o.RetryInterval == 0 {
		o.RetryInterval = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	httpClient, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return &Registry{Options: o, http: httpClient, scheme: newScheme(),
		informers: map[Key]*informer{}, holders: map[Key]map[string]bool{},
		kinds: map[Key]Kind{}, stopping: map[Key]chan struct{}{}}, nil
}

// Run runs what is wanted until the context ends, and waits until everything has stopped.
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

// Acquire runs an informer for as long as any holder wants it.
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

// Release ends what a holder wanted. An informer that nobody wants stops, and its objects are
// forgotten.
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

// informerStopped notes that an informer has stopped.
func (r *Registry) informerStopped(i *informer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping[i.key] == i.done {
		delete(r.stopping, i.key)
	}
}

// start starts an informer, if the registry runs.
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

// Informers say how they are, in the order of their resources.
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

// State is how an informer for objects of a namespace is, or the one for all namespaces; empty
// when there is none.
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

// Synced says whether everything that is wanted was read once, or cannot be.
func (r *Registry) Synced() bool {
	return !slices.ContainsFunc(r.Informers(), func(s Status) bool { return s.State == Syncing })
}
