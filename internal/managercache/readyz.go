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

// cacheSyncRetryInterval is how often a cache that could not be started is tried again.
const cacheSyncRetryInterval = time.Second

// NewReadyzCheck returns a check that holds once everything the manager reads is in its cache, the
// objects of the given kinds included, as far as the API server knows these. It fills the
// caches also while another replica leads, so that taking over does not begin with a list
// of the whole cluster.
func NewReadyzCheck(mgr ctrl.Manager, kinds ...client.Object) (healthz.Checker, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("ask the API server which kinds it knows: %w", err)
	}
	w := &cacheWarmer{mgr: mgr, objects: cachedObjects(kinds), discoveryClient: discoveryClient}
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
	objects         []client.Object
	discoveryClient *discovery.DiscoveryClient
	synced          atomic.Bool
}

// NeedLeaderElection says that standbys are warmed too.
func (w *cacheWarmer) NeedLeaderElection() bool { return false }

// Start returns when the caches are filled, however long the API server is away.
func (w *cacheWarmer) Start(ctx context.Context) error {
	for _, obj := range w.objects {
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

// waitSynced waits a moment for the objects of a kind. A kind that the API server does not know
// has none, and must not keep us from looking after the others; whoever installs it later
// finds it watched.
func (w *cacheWarmer) waitSynced(ctx context.Context, obj client.Object) bool {
	attemptCtx, cancel := context.WithTimeout(ctx, cacheSyncRetryInterval)
	defer cancel()
	if _, err := w.mgr.GetCache().GetInformer(attemptCtx, obj); err == nil {
		return true
	}
	<-attemptCtx.Done() // also when it failed at once
	return w.isUnserved(ctx, obj)
}

// isUnserved says whether the API server answers that there is no such kind.
func (w *cacheWarmer) isUnserved(ctx context.Context, obj client.Object) bool {
	gvk, err := apiutil.GVKForObject(obj, w.mgr.GetScheme())
	if err != nil {
		return false
	}
	served, err := IsServedFunc(w.discoveryClient)(ctx, gvk)
	return err == nil && !served
}
