package managercache

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/childkind"
)

// indexCache counts indexes, and fails as often as configured.
type indexCache struct {
	ctrlcache.Cache
	failures, added int
}

func (c *indexCache) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	if c.failures > 0 {
		c.failures--
		return errors.New("indexer conflict: not the one of client-go")
	}
	c.added++
	return nil
}

func (*indexCache) RemoveInformer(context.Context, client.Object) error { return nil }

func TestIndexIsAddedOnce(t *testing.T) {
	primary := &indexCache{failures: 1}
	cache := newCompositeCache(appsapi.DefaultKeys, primary, nil, clientgoscheme.Scheme)
	add := func(field string) error {
		return cache.IndexField(t.Context(), &appsv1.Deployment{}, field, childkind.Indexer{Keys: appsapi.DefaultKeys}.ByOwner)
	}
	if err := add("owner"); err == nil {
		t.Fatal("an error of the cache must be returned, regardless of its text")
	}
	for range 3 {
		if err := add("owner"); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("workload"); err != nil || primary.added != 2 {
		t.Errorf("%d indexes were added, want 2: %v", primary.added, err)
	}
	if err := cache.RemoveInformer(t.Context(), &appsv1.Deployment{}); err != nil {
		t.Fatal(err)
	}
	if err := add("owner"); err != nil || primary.added != 3 {
		t.Errorf("the index was not added to the new informer: %d, %v", primary.added, err)
	}
}
