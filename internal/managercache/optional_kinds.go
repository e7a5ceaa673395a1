package managercache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// discoveryInterval is how often discovery checks whether a kind is served, regardless of the
// number of applications.
const discoveryInterval = 5 * time.Second

// maxInitialWatchAttempts limits the attempts at startup to watch a served kind.
const maxInitialWatchAttempts = 3

// OptionalKind is a kind whose CRD may be installed or removed while the operator is running. It is
// watched only while it is served: otherwise the informer would retry forever.
//
//	startup ──► served ── a write returns NotFound ──► not served ── an application needs it, ──► served
//	       └──► not served                                           and discovery finds it
type OptionalKind struct {
	childkind.Kind
	cache    Composite
	isServed func(context.Context, schema.GroupVersionKind) (bool, error)
	handler  handler.EventHandler
	clock    clock.PassiveClock

	initialized chan struct{} // closed after the first check
	startMu     sync.Mutex    // held while the watch starts, which may take long

	mu        sync.Mutex
	ctx       context.Context // of the controller
	queue     queue
	stop      context.CancelFunc
	checkedAt time.Time
	// watchErr is why a served kind could not be watched.
	watchErr error
	// epoch is the epoch of the current watch, 0 if there is none. If another controller notices
	// that the kind is no longer served, the watches of all controllers end.
	epoch int
}

// NewOptionalKind returns a source that watches a kind while the API server serves it.
func NewOptionalKind(child childkind.Kind, cache Composite, isServed func(context.Context, schema.GroupVersionKind) (bool, error),
	h handler.EventHandler, c clock.PassiveClock,
) *OptionalKind {
	return &OptionalKind{Kind: child, cache: cache, isServed: isServed, handler: h, clock: c, initialized: make(chan struct{})}
}

// queue is the work queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watchEpochs counts how often a kind stopped being served, for all controllers that share a cache.
type watchEpochs struct {
	mu    sync.Mutex
	ended map[schema.GroupVersionKind]int
}

// current returns the current epoch of a kind, from 1.
func (l *watchEpochs) current(kind schema.GroupVersionKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[kind] + 1
}

// advance ends an epoch, unless another controller already has.
func (l *watchEpochs) advance(kind schema.GroupVersionKind, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[kind]+1 == epoch {
		l.ended[kind]++
	}
}

var _ ctrlsource.SyncingSource = &OptionalKind{}

// String names the source in logs.
func (o *OptionalKind) String() string { return "optional kind source: " + o.GVK.Kind }

// Start performs the first check in the background, and retries while the API server is
// unreachable.
func (o *OptionalKind) Start(ctx context.Context, q queue) error {
	o.mu.Lock()
	o.ctx, o.queue = ctx, q
	o.mu.Unlock()
	go func() {
		defer close(o.initialized)
		for attempts := 0; attempts < maxInitialWatchAttempts && ctx.Err() == nil; {
			served, err := o.isServed(ctx, o.GVK)
			if err == nil {
				if !served || o.startWatch(ctx) == nil {
					return
				}
				attempts++ // a kind that few applications use must not delay all others
			}
			select {
			case <-ctx.Done():
			case <-time.After(cacheSyncRetryInterval):
			}
		}
	}()
	return nil
}

// WaitForSync blocks the controller until existing objects of the kind are in the cache.
func (o *OptionalKind) WaitForSync(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.initialized:
		return nil
	}
}

// isWatched reports whether the objects of the kind are in the cache.
func (o *OptionalKind) isWatched() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.epoch == o.cache.watchEpochs.current(o.GVK)
}

// ensureWatched reports whether objects of the kind can be written. It checks that at most once per
// discoveryInterval.
func (o *OptionalKind) ensureWatched(ctx context.Context) (bool, error) {
	if o.isWatched() {
		return true, nil
	}
	o.mu.Lock()
	recent, watchErr := o.clock.Since(o.checkedAt) < discoveryInterval, o.watchErr
	if !recent {
		o.checkedAt = o.clock.Now()
	}
	o.mu.Unlock()
	if recent {
		return false, watchErr
	}
	served, err := o.isServed(ctx, o.GVK)
	if err == nil && served {
		err = o.startWatch(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watchErr = err
	return served && err == nil, err
}

// startWatch starts to watch the kind, and returns when existing objects are in the cache.
func (o *OptionalKind) startWatch(ctx context.Context) error {
	o.startMu.Lock()
	defer o.startMu.Unlock()
	if o.isWatched() {
		return nil
	}
	// The kind may disappear again, or the operator may lack permissions.
	ctx, cancel := context.WithTimeout(ctx, discoveryInterval)
	defer cancel()
	o.mu.Lock()
	watchCtx, stop := context.WithCancel(o.ctx)
	queue, epoch := o.queue, o.cache.watchEpochs.current(o.GVK)
	o.mu.Unlock()
	s := ctrlsource.Kind[client.Object](perSourceSyncCache{o.cache}, o.Object, o.handler)
	err := o.cache.IndexField(ctx, o.Object, childkind.IndexOwner, childkind.Indexer{Keys: o.cache.Keys}.ByOwner)
	if err == nil {
		err = s.Start(watchCtx, queue)
	}
	if err == nil {
		err = s.WaitForSync(ctx)
	}
	if err != nil {
		stop()
		return errors.Join(fmt.Errorf("%ss of %s cannot be watched: %w; check that the operator is allowed to list and watch them",
			o.GVK.Kind, o.GVK.Group, err), o.removeInformer(epoch))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epoch, o.stop = epoch, stop
	return nil
}

// stopIfUnserved stops watching if the API server no longer serves the kind.
func (o *OptionalKind) stopIfUnserved(ctx context.Context) (bool, error) {
	served, err := o.isServed(ctx, o.GVK)
	if err != nil || served {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.epoch == 0 {
		return true, nil
	}
	o.stop()
	epoch := o.epoch
	o.epoch = 0
	return true, o.removeInformer(epoch)
}

// removeInformer removes the kind from the cache, for all controllers.
func (o *OptionalKind) removeInformer(epoch int) error {
	o.cache.watchEpochs.advance(o.GVK, epoch)
	return o.cache.RemoveInformer(context.Background(), o.Object)
}

// IsServedFunc returns a function that checks by discovery whether a kind is served.
func IsServedFunc(d *discovery.DiscoveryClient) func(context.Context, schema.GroupVersionKind) (bool, error) {
	return func(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
		list, err := d.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("check whether the API server serves %s: %w", gvk, err)
		}
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }), nil
	}
}

// OptionalKinds are the optional kinds of a reconciler.
type OptionalKinds map[schema.GroupVersionKind]*OptionalKind

// IsReadable reports whether objects of a kind can be read from the cache.
func (o OptionalKinds) IsReadable(kind schema.GroupVersionKind) bool {
	opt := o[kind]
	return opt == nil && kind != desired.KindRoute || opt != nil && opt.isWatched()
}

// EnsureWritable returns an error if the cluster does not serve the kind of a child.
func (o OptionalKinds) EnsureWritable(ctx context.Context, namespace string, id desired.ID) error {
	opt := o[id.Kind]
	if opt == nil {
		return nil
	}
	served, err := opt.ensureWatched(ctx)
	if err == nil && !served {
		err = &ownership.UnknownKind{Child: id, Namespace: namespace}
	}
	return err
}

// RefineError checks whether a write failed because its kind is no longer served.
func (o OptionalKinds) RefineError(ctx context.Context, namespace string, id desired.ID, err error) error {
	opt := o[id.Kind]
	if opt == nil || !apierrors.IsNotFound(err) {
		return err
	}
	unserved, stopErr := opt.stopIfUnserved(ctx)
	if unserved {
		return errors.Join(&ownership.UnknownKind{Child: id, Namespace: namespace}, stopErr)
	}
	return err
}
