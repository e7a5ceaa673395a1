package managercache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// cacheSyncRetryInterval is how often starting a cache is retried.
const cacheSyncRetryInterval = time.Second

// NewReadyzCheck returns a check that passes once all caches of the manager are in sync, including
// the given kinds, except for kinds that the API server does not serve. Caches are also filled on
// standby replicas, so that a new leader does not start with a list of the whole cluster.
func NewReadyzCheck(mgr ctrl.Manager, kinds ...client.Object) (healthz.Checker, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create discovery client: %w", err)
	}
	w := &cacheWarmer{mgr: mgr, kinds: kinds, discoveryClient: discoveryClient}
	return func(*http.Request) error {
		if !w.synced.Load() {
			return errors.New("the caches are not in sync with the API server yet")
		}
		return nil
	}, mgr.Add(w)
}

// cacheWarmer fills the caches of a manager.
type cacheWarmer struct {
	mgr             ctrl.Manager
	kinds           []client.Object
	discoveryClient *discovery.DiscoveryClient
	synced          atomic.Bool
}

// NeedLeaderElection returns false, so that standby replicas fill their caches, too.
func (w *cacheWarmer) NeedLeaderElection() bool { return false }

// Start returns when the caches are filled. It retries while the API server is unreachable.
func (w *cacheWarmer) Start(ctx context.Context) error {
	objects := w.kinds
	if cache, ok := w.mgr.GetCache().(Composite); ok {
		objects = append(cache.requiredObjects(), w.kinds...)
	}
	for _, obj := range objects {
		for !w.waitSynced(ctx, obj) {
			select {
			case <-ctx.Done():
				return nil
			default:
			}
		}
	}
	w.synced.Store(true)
	return nil
}

// waitSynced waits briefly for the objects of a kind. A kind that the API server does not serve
// counts as synced and must not block the others; it is watched once its CRD is installed.
func (w *cacheWarmer) waitSynced(ctx context.Context, obj client.Object) bool {
	attemptCtx, cancel := context.WithTimeout(ctx, cacheSyncRetryInterval)
	defer cancel()
	if _, err := w.mgr.GetCache().GetInformer(attemptCtx, obj); err == nil {
		return true
	}
	<-attemptCtx.Done() // also after an immediate error
	return w.isUnserved(ctx, obj)
}

// isUnserved reports whether the API server does not serve a kind.
func (w *cacheWarmer) isUnserved(ctx context.Context, obj client.Object) bool {
	gvk, err := apiutil.GVKForObject(obj, w.mgr.GetScheme())
	if err != nil {
		return false
	}
	served, err := IsServedFunc(w.discoveryClient)(ctx, gvk)
	return err == nil && !served
}
