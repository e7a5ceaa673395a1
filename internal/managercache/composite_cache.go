package managercache

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Composite combines two caches. It keeps only the identity of all ConfigMaps, but the content of
// managed ones. A cache has one rule per kind, so this takes two.
type Composite struct {
	ctrlcache.Cache
	// Keys are the label and annotation keys of the operator.
	Keys        *appsapi.Keys
	configMaps  ctrlcache.Cache
	scheme      *runtime.Scheme
	watchEpochs *watchEpochs
	indexes     *indexSet
}

func newCompositeCache(keys *appsapi.Keys, primary, configMaps ctrlcache.Cache, scheme *runtime.Scheme) Composite {
	return Composite{
		Cache: primary, Keys: keys, configMaps: configMaps, scheme: scheme,
		watchEpochs: &watchEpochs{ended: map[schema.GroupVersionKind]int{}},
		indexes:     &indexSet{added: map[indexKey]bool{}},
	}
}

// indexSet tracks the indexes of a cache. Every kind needs the same ones, and a cache returns an
// error for an existing one.
type indexSet struct {
	mu    sync.Mutex
	added map[indexKey]bool
	// required are the objects that must be in sync before the manager is ready.
	required []client.Object
}

type indexKey struct {
	object schema.GroupVersionKind
	field  string
}

// cacheFor returns the cache of an object or list.
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

// GetInformer returns the informer of a kind.
func (s Composite) GetInformer(ctx context.Context, obj client.Object, opts ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return s.cacheFor(obj).GetInformer(ctx, obj, opts...)
}

// RemoveInformer stops the informer of a kind and drops its indexes.
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

// IndexField adds an index unless it exists.
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

func (s Composite) require(objects []client.Object) {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	s.indexes.required = append(s.indexes.required, objects...)
}

func (s Composite) requiredObjects() []client.Object {
	s.indexes.mu.Lock()
	defer s.indexes.mu.Unlock()
	return slices.Clone(s.indexes.required)
}

// Start runs both caches until the context ends.
func (s Composite) Start(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return s.Cache.Start(ctx) })
	group.Go(func() error { return s.configMaps.Start(ctx) })
	return group.Wait()
}

// WaitForCacheSync waits for both caches.
func (s Composite) WaitForCacheSync(ctx context.Context) bool {
	return s.Cache.WaitForCacheSync(ctx) && s.configMaps.WaitForCacheSync(ctx)
}

var _ ctrlcache.Cache = Composite{}
