package managercache

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Require adds the indexes that the reconciler needs for a set of children, and the objects that
// must be in sync before the manager is ready. Several kinds may require the same.
func Require(cache Composite, set *childkind.Set) error {
	ctx, by := context.Background(), childkind.Indexer{Keys: cache.Keys}
	for _, child := range set.Required {
		if err := cache.IndexField(ctx, child.Object, childkind.IndexOwner, by.ByOwner); err != nil {
			return err
		}
	}
	type index struct {
		object    client.Object
		field     string
		indexFunc client.IndexerFunc
	}
	indexes := []index{{&corev1.Pod{}, childkind.IndexWorkload, by.ByWorkload}}
	if set.Data {
		claim, secret := &corev1.PersistentVolumeClaim{}, childkind.NewConfigRefMetadata(desired.RefSecret)
		indexes = append(indexes,
			index{childkind.StatefulSet.Object, childkind.IndexWorkload, by.ByWorkload},
			index{claim, childkind.IndexWorkload, by.ByWorkload}, index{secret, childkind.IndexWorkload, by.ByWorkload},
			index{claim, childkind.IndexRetained, by.ByRetained}, index{secret, childkind.IndexRetained, by.ByRetained})
	}
	for _, idx := range indexes {
		if err := cache.IndexField(ctx, idx.object, idx.field, idx.indexFunc); err != nil {
			return err
		}
	}
	cache.require(set.Cached())
	return nil
}
