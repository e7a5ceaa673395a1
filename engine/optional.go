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
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// askAgain is how often the API server is asked whether it knows a kind by now, however
// many applications want it.
const askAgain = 5 * time.Second

// optional is a kind that a cluster may get to know, and forget, while we run. It is watched
// only while it is known: a watch of nothing would ask the API server for ever.
//
//	first look ──► known ── an apply finds nobody ──► unknown ── somebody wants it, ──► known
//	          └──► unknown                                       and it is there
type optional struct {
	childKind
	cache   ctrlcache.Cache
	known   func(context.Context, schema.GroupVersionKind) (bool, error)
	handler handler.EventHandler
	clock   clock.PassiveClock

	looked chan struct{} // closed after the first look

	mu    sync.Mutex
	ctx   context.Context // of the controller
	queue queue
	live  bool
	stop  context.CancelFunc
	asked time.Time
}

var _ ctrlsource.SyncingSource = &optional{}

// unknownKind is a child of a kind that the cluster does not know.
type unknownKind struct {
	child     desired.ID
	namespace string
}

func (u *unknownKind) Error() string {
	hint := ""
	if u.child.Kind == desired.KindRoute {
		hint = "; install the Gateway API, or use expose.ingressClassName instead of expose.gatewayRef"
	}
	return fmt.Sprintf("%s %s/%s cannot be created, because the cluster does not know the kind %s of %s%s",
		u.child.Kind.Kind, u.namespace, u.child.Name, u.child.Kind.Kind, u.child.Kind.GroupVersion(), hint)
}

// Start makes the first look, however long the API server is away.
func (o *optional) Start(ctx context.Context, q queue) error {
	o.mu.Lock()
	o.ctx, o.queue = ctx, q
	o.mu.Unlock()
	go func() {
		defer close(o.looked)
		for {
			known, err := o.known(ctx, o.kind)
			if err == nil && known {
				err = o.watch(ctx)
			}
			if err == nil {
				return
			}
			select {
			case <-ctx.Done():
				return
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
	return o.live
}

// want says whether objects of the kind can be written, and asks for that from time to time.
func (o *optional) want(ctx context.Context) (bool, error) {
	o.mu.Lock()
	live, soon := o.live, o.clock.Since(o.asked) < askAgain
	if !live && !soon {
		o.asked = o.clock.Now()
	}
	o.mu.Unlock()
	if live || soon {
		return live, nil
	}
	known, err := o.known(ctx, o.kind)
	if err != nil || !known {
		return false, err
	}
	return true, o.watch(ctx)
}

// watch begins to watch the kind, and returns when what is there is in the cache.
func (o *optional) watch(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live {
		return nil
	}
	watching, stop := context.WithCancel(o.ctx)
	s := ctrlsource.Kind[client.Object](ownSources{o.cache}, o.object, o.handler)
	err := addIndex(ctx, o.cache, o.object, indexOwner, ownersOf)
	if err == nil {
		err = s.Start(watching, o.queue)
	}
	if err == nil {
		err = s.WaitForSync(ctx)
	}
	if err != nil {
		stop()
		return fmt.Errorf("watch %s: %w", o.kind.Kind, err)
	}
	o.live, o.stop = true, stop
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
	if !o.live {
		return true, nil
	}
	o.live = false
	o.stop()
	return true, o.cache.RemoveInformer(ctx, o.object)
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
		err = &unknownKind{id, namespace}
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
		return errors.Join(&unknownKind{id, namespace}, askErr)
	}
	return err
}
