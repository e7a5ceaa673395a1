package managercache

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// PerSourceSync is a manager whose controllers wait only for the sources that they watch. By
// default each waits for the whole cache: a kind whose CRD is missing would block all others.
type PerSourceSync struct{ ctrl.Manager }

// GetCache returns the cache for controllers.
func (m PerSourceSync) GetCache() ctrlcache.Cache {
	return perSourceSyncCache{m.Manager.GetCache()}
}

type perSourceSyncCache struct{ ctrlcache.Cache }

// WaitForCacheSync returns at once: each source waits for its own informer.
func (perSourceSyncCache) WaitForCacheSync(context.Context) bool { return true }
