package engine

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// splitCache is two caches that look like one. Of all ConfigMaps we keep that they exist,
// and of our own ones the content: a cache has one rule per kind, so these are two.
type splitCache struct {
	ctrlcache.Cache
	files ctrlcache.Cache
	lives *lives
}

// of is the cache that an object, or a list of objects, is in.
func (s splitCache) of(obj any) ctrlcache.Cache {
	switch obj.(type) {
	case *corev1.ConfigMap, *corev1.ConfigMapList:
		return s.files
	}
	return s.Cache
}

// Get reads an object.
func (s splitCache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return s.of(obj).Get(ctx, key, obj, opts...)
}

// List reads objects.
func (s splitCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return s.of(list).List(ctx, list, opts...)
}

// GetInformer returns what fills the cache with objects.
func (s splitCache) GetInformer(ctx context.Context, obj client.Object, opts ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return s.of(obj).GetInformer(ctx, obj, opts...)
}

// RemoveInformer ends that.
func (s splitCache) RemoveInformer(ctx context.Context, obj client.Object) error {
	return s.of(obj).RemoveInformer(ctx, obj)
}

// IndexField adds an index.
func (s splitCache) IndexField(ctx context.Context, obj client.Object, field string, of client.IndexerFunc) error {
	return s.of(obj).IndexField(ctx, obj, field, of)
}

// Start runs both until the context ends.
func (s splitCache) Start(ctx context.Context) error {
	var both errgroup.Group
	both.Go(func() error { return s.Cache.Start(ctx) })
	both.Go(func() error { return s.files.Start(ctx) })
	return both.Wait()
}

// WaitForCacheSync waits for both.
func (s splitCache) WaitForCacheSync(ctx context.Context) bool {
	return s.Cache.WaitForCacheSync(ctx) && s.files.WaitForCacheSync(ctx)
}

var _ ctrlcache.Cache = splitCache{}
