package managercache

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Composite is two caches that look like one. Of all ConfigMaps we keep that they exist,
// and of our own ones the content: a cache has one rule per kind, so these are two.
type Composite struct {
	ctrlcache.Cache
	configMaps  ctrlcache.Cache
	scheme      *runtime.Scheme
	watchEpochs *watchEpochs
	indexes     *indexSet
}

func newCompositeCache(primary, configMaps ctrlcache.Cache, scheme *runtime.Scheme) Composite {
	return Composite{
		Cache: primary, configMaps: configMaps, scheme: scheme,
		watchEpochs: &watchEpochs{ended: map[schema.GroupVersionKind]int{}},
		indexes:     &indexSet{added: map[indexKey]bool{}},
	}
}

// indexSet remembers the indexes of a cache. Every kind needs the same ones, and the cache returns
// an error for one that is there.
type indexSet struct {
	mu    sync.Mutex
	added map[indexKey]bool
}

type indexKey struct {
	object schema.GroupVersionKind
	field  string
}

// cacheFor is the cache that an object, or a list of objects, is in.
func (s Composite) cacheFor(obj any) ctrlcache.Cache {
	switch obj.(type) {
	case *corev1.ConfigMap, *corev1.ConfigMapList:
		return s.configMaps
	}
	return s.Cache
}

// Get reads an object.
func (s Composite) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return s.cacheFor(obj).Get(ctx, key, obj, opts...)
}

// List reads objects.
func (s Composite) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.cacheFor(list).List(ctx, list, opts...)
}

// GetInformer returns what fills the cache with objects.
func (s Composite) GetInformer(ctx context.Context, obj client.Object, opts ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return s.cacheFor(obj).GetInformer(ctx, obj, opts...)
}

// RemoveInformer stops the informer of a kind; its indexes go with it.
func (s Composite) RemoveInformer(ctx context.Context, obj client.Object) error {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.indexes.added, func(k indexKey, _ bool) bool { return k.object == gvk })
	return s.cacheFor(obj).RemoveInformer(ctx, obj)
}

// IndexField adds an index unless it is there.
func (s Composite) IndexField(ctx context.Context, obj client.Object, field string, indexFunc client.IndexerFunc) error {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		return err
	}
	key := indexKey{gvk, field}
	if s.indexes.added[key] {
		return nil
	}
	if err := s.cacheFor(obj).IndexField(ctx, obj, field, indexFunc); err != nil {
		return fmt.Errorf("index %s by %s: %w", gvk.Kind, field, err)
	}
	s.indexes.added[key] = true
	return nil
}

// Start runs both until the context ends.
func (s Composite) Start(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return s.Cache.Start(ctx) })
	group.Go(func() error { return s.configMaps.Start(ctx) })
	return group.Wait()
}

// WaitForCacheSync waits for both.
func (s Composite) WaitForCacheSync(ctx context.Context) bool {
	return s.Cache.WaitForCacheSync(ctx) && s.configMaps.WaitForCacheSync(ctx)
}

var _ ctrlcache.Cache = Composite{}
