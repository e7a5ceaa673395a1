package managercache

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// PerSourceSync is a manager whose controllers wait for what they watch themselves. Left to
// itself, each waits for the whole cache: a kind whose CRD is missing would keep all others
// from working.
type PerSourceSync struct{ ctrl.Manager }

// GetCache is what controllers watch through.
func (m PerSourceSync) GetCache() ctrlcache.Cache {
	return perSourceSyncCache{m.Manager.GetCache()}
}

type perSourceSyncCache struct{ ctrlcache.Cache }

// WaitForCacheSync leaves the waiting to each source: it returns when its own informer has
// told it everything.
func (perSourceSyncCache) WaitForCacheSync(context.Context) bool { return true }
