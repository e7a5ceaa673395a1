package engine

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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/own"
)

// askAgain is how often the API server is asked whether it knows a kind by now, however
// many applications want it.
const askAgain = 5 * time.Second

// firstTries is how often a kind that is known, and cannot be watched, is tried at the start.
const firstTries = 3

// optional is a kind that a cluster may get to know, and forget, while we run. It is watched
// only while it is known: a watch of nothing would ask the API server for ever.
//
//	first look ──► known ── an apply finds nobody ──► unknown ── somebody wants it, ──► known
//	          └──► unknown                                       and it is there
type optional struct {
	childKind
	cache   splitCache
	known   func(context.Context, schema.GroupVersionKind) (bool, error)
	handler handler.EventHandler
	clock   clock.PassiveClock

	looked   chan struct{} // closed after the first look
	starting sync.Mutex    // held while the watch begins, which may take a while

	mu    sync.Mutex
	ctx   context.Context // of the controller
	queue queue
	stop  context.CancelFunc
	asked time.Time
	// trouble is why it could not be watched although it is known.
	trouble error
	// life is the one of the kind that is watched, 0 if none is. Another controller may be the
	// one that notices the end of it, and the watches of all go with it.
	life int
}

// lives counts how often a kind was forgotten, for all controllers that share a cache.
type lives struct {
	mu    sync.Mutex
	count map[schema.GroupVersionKind]int
}

// of is the number of the present life of a kind, from 1.
func (l *lives) of(kind schema.GroupVersionKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[kind] + 1
}

// end ends a life, if nobody has yet.
func (l *lives) end(kind schema.GroupVersionKind, life int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[kind]+1 == life {
		l.count[kind]++
	}
}

var _ ctrlsource.SyncingSource = &optional{}

// String names it in the log.
func (o *optional) String() string { return "optional kind source: " + o.kind.Kind }

// Start makes the first look, however long the API server is away.
func (o *optional) Start(ctx context.Context, q queue) error {
	o.mu.Lock()
	o.ctx, o.queue = ctx, q
	o.mu.Unlock()
	go func() {
		defer close(o.looked)
		for tries := 0; tries < firstTries && ctx.Err() == nil; {
			known, err := o.known(ctx, o.kind)
			if err == nil {
				if !known || o.watch(ctx) == nil {
					return
				}
				tries++ // what only some want must not keep all others waiting
			}
			select {
			case <-ctx.Done():
			case <-time.After(retrySync):
			}
		}
	}()
	return nil
}

// WaitForSync keeps the controller from deciding on a world without what is there.
func (o *optional) WaitForSync(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.looked:
		return nil
	}
}

// isLive says whether the objects of the kind are in the cache.
func (o *optional) isLive() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.life == o.cache.lives.of(o.kind)
}

// want says whether objects of the kind can be written, and asks for that from time to time.
func (o *optional) want(ctx context.Context) (bool, error) {
	if o.isLive() {
		return true, nil
	}
	o.mu.Lock()
	soon, trouble := o.clock.Since(o.asked) < askAgain, o.trouble
	if !soon {
		o.asked = o.clock.Now()
	}
	o.mu.Unlock()
	if soon {
		return false, trouble
	}
	known, err := o.known(ctx, o.kind)
	if err == nil && known {
		err = o.watch(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trouble = err
	return known && err == nil, err
}

// watch begins to watch the kind, and returns when what is there is in the cache.
func (o *optional) watch(ctx context.Context) error {
	o.starting.Lock()
	defer o.starting.Unlock()
	if o.isLive() {
		return nil
	}
	// It may go again before it has come, or be forbidden to us.
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	o.mu.Lock()
	watching, stop := context.WithCancel(o.ctx)
	queue, life := o.queue, o.cache.lives.of(o.kind)
	o.mu.Unlock()
	s := ctrlsource.Kind[client.Object](ownSources{o.cache}, o.object, o.handler)
	err := addIndex(ctx, o.cache, o.object, indexOwner, ownersOf)
	if err == nil {
		err = s.Start(watching, queue)
	}
	if err == nil {
		err = s.WaitForSync(ctx)
	}
	if err != nil {
		stop()
		return errors.Join(fmt.Errorf("%ss of %s cannot be watched: %w; see whether the operator may list and watch them", o.kind.Kind, o.kind.Group, err), o.end(life))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.life, o.stop = life, stop
	return nil
}

// gone stops watching if the API server does not know the kind any more.
func (o *optional) gone(ctx context.Context) (bool, error) {
	known, err := o.known(ctx, o.kind)
	if err != nil || known {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.life == 0 {
		return true, nil
	}
	o.stop()
	life := o.life
	o.life = 0
	return true, o.end(life)
}

// end takes the kind out of the cache, for all who watch it.
func (o *optional) end(life int) error {
	o.cache.lives.end(o.kind, life)
	return o.cache.RemoveInformer(context.Background(), o.object)
}

// knows asks the API server for its kinds.
func knows(d *discovery.DiscoveryClient) func(context.Context, schema.GroupVersionKind) (bool, error) {
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

// optionals are those of a reconciler, by kind.
type optionals map[schema.GroupVersionKind]*optional

// readable says whether objects of a kind can be read from the cache.
func (o optionals) readable(kind schema.GroupVersionKind) bool {
	kept := o[kind]
	return kept == nil && kind != desired.KindRoute || kept != nil && kept.isLive()
}

// writable returns an error if a child is of a kind that the cluster does not know.
func (o optionals) writable(ctx context.Context, namespace string, id desired.ID) error {
	kept := o[id.Kind]
	if kept == nil {
		return nil
	}
	known, err := kept.want(ctx)
	if err == nil && !known {
		err = &own.UnknownKind{Child: id, Namespace: namespace}
	}
	return err
}

// refine finds out whether a child could not be written because its kind has gone.
func (o optionals) refine(ctx context.Context, namespace string, id desired.ID, err error) error {
	kept := o[id.Kind]
	if kept == nil || !apierrors.IsNotFound(err) {
		return err
	}
	gone, askErr := kept.gone(ctx)
	if gone {
		return errors.Join(&own.UnknownKind{Child: id, Namespace: namespace}, askErr)
	}
	return err
}
