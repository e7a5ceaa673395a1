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

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// discoveryInterval is how often the API server is asked whether it knows a kind by now, however
// many applications want it.
const discoveryInterval = 5 * time.Second

// maxInitialWatchAttempts is how often a kind that is known, and cannot be watched, is tried at the start.
const maxInitialWatchAttempts = 3

// OptionalKind is a kind that a cluster may get to know, and forget, while we run. It is watched
// only while it is known: a watch of nothing would ask the API server for ever.
//
//	first look ──► known ── an apply finds nobody ──► unknown ── somebody wants it, ──► known
//	          └──► unknown                                       and it is there
type OptionalKind struct {
	ChildKind
	cache    Composite
	isServed func(context.Context, schema.GroupVersionKind) (bool, error)
	handler  handler.EventHandler
	clock    clock.PassiveClock

	initialized chan struct{} // closed after the first look
	startMu     sync.Mutex    // held while the watch begins, which may take a while

	mu        sync.Mutex
	ctx       context.Context // of the controller
	queue     queue
	stop      context.CancelFunc
	checkedAt time.Time
	// watchErr is why it could not be watched although it is known.
	watchErr error
	// epoch is the one of the kind that is watched, 0 if none is. Another controller may be the
	// one that notices the end of it, and the watches of all go with it.
	epoch int
}

// NewOptionalKind returns a source that watches a kind while the API server serves it.
func NewOptionalKind(child ChildKind, cache Composite, isServed func(context.Context, schema.GroupVersionKind) (bool, error),
	h handler.EventHandler, c clock.PassiveClock,
) *OptionalKind {
	return &OptionalKind{ChildKind: child, cache: cache, isServed: isServed, handler: h, clock: c, initialized: make(chan struct{})}
}

// queue is the work queue of a controller.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watchEpochs counts how often a kind was forgotten, for all controllers that share a cache.
type watchEpochs struct {
	mu    sync.Mutex
	ended map[schema.GroupVersionKind]int
}

// current is the number of the present life of a kind, from 1.
func (l *watchEpochs) current(kind schema.GroupVersionKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[kind] + 1
}

// advance ends a life, if nobody has yet.
func (l *watchEpochs) advance(kind schema.GroupVersionKind, epoch int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[kind]+1 == epoch {
		l.ended[kind]++
	}
}

var _ ctrlsource.SyncingSource = &OptionalKind{}

// String names it in the log.
func (o *OptionalKind) String() string { return "optional kind source: " + o.GVK.Kind }

// Start makes the first look, however long the API server is away.
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
				attempts++ // what only some want must not keep all others waiting
			}
			select {
			case <-ctx.Done():
			case <-time.After(cacheSyncRetryInterval):
			}
		}
	}()
	return nil
}

// WaitForSync keeps the controller from deciding on a world without what is there.
func (o *OptionalKind) WaitForSync(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.initialized:
		return nil
	}
}

// isWatched says whether the objects of the kind are in the cache.
func (o *OptionalKind) isWatched() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.epoch == o.cache.watchEpochs.current(o.GVK)
}

// ensureWatched says whether objects of the kind can be written, and asks for that from time to time.
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

// startWatch begins to watch the kind, and returns when what is there is in the cache.
func (o *OptionalKind) startWatch(ctx context.Context) error {
	o.startMu.Lock()
	defer o.startMu.Unlock()
	if o.isWatched() {
		return nil
	}
	// It may go again before it has come, or be forbidden to us.
	ctx, cancel := context.WithTimeout(ctx, discoveryInterval)
	defer cancel()
	o.mu.Lock()
	watchCtx, stop := context.WithCancel(o.ctx)
	queue, epoch := o.queue, o.cache.watchEpochs.current(o.GVK)
	o.mu.Unlock()
	s := ctrlsource.Kind[client.Object](perSourceSyncCache{o.cache}, o.Object, o.handler)
	err := o.cache.IndexField(ctx, o.Object, IndexOwner, OwnerIndexKeys)
	if err == nil {
		err = s.Start(watchCtx, queue)
	}
	if err == nil {
		err = s.WaitForSync(ctx)
	}
	if err != nil {
		stop()
		return errors.Join(fmt.Errorf("%ss of %s cannot be watched: %w; see whether the operator may list and watch them", o.GVK.Kind, o.GVK.Group, err), o.removeInformer(epoch))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epoch, o.stop = epoch, stop
	return nil
}

// stopIfUnserved stops watching if the API server does not know the kind any more.
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

// removeInformer takes the kind out of the cache, for all who watch it.
func (o *OptionalKind) removeInformer(epoch int) error {
	o.cache.watchEpochs.advance(o.GVK, epoch)
	return o.cache.RemoveInformer(context.Background(), o.Object)
}

// IsServedFunc asks the API server for its kinds.
func IsServedFunc(d *discovery.DiscoveryClient) func(context.Context, schema.GroupVersionKind) (bool, error) {
	return func(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
		list, err := d.ServerResourcesForGroupVersionWithContext(ctx, gvk.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("ask whether the API server knows %s: %w", gvk, err)
		}
		return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }), nil
	}
}

// OptionalKinds are those of a reconciler, by kind.
type OptionalKinds map[schema.GroupVersionKind]*OptionalKind

// IsReadable says whether objects of a kind can be read from the cache.
func (o OptionalKinds) IsReadable(kind schema.GroupVersionKind) bool {
	opt := o[kind]
	return opt == nil && kind != desired.KindRoute || opt != nil && opt.isWatched()
}

// EnsureWritable returns an error if a child is of a kind that the cluster does not know.
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

// RefineError finds out whether a child could not be written because its kind has gone.
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
