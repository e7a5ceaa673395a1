package engine

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

// retrySync is how often a cache that could not be started is tried again.
const retrySync = time.Second

// Ready returns a check that holds once everything the manager reads is in its cache, the
// objects of the given kinds included, as far as the API server knows these. It fills the
// caches also while another replica leads, so that taking over does not begin with a list
// of the whole cluster.
func Ready(mgr ctrl.Manager, kinds ...Object) (healthz.Checker, error) {
	known, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("ask the API server which kinds it knows: %w", err)
	}
	w := &warmer{mgr: mgr, objects: everything(kinds), known: known}
	return func(*http.Request) error {
		if !w.done.Load() {
			return errors.New("the caches are not in sync with the API server yet")
		}
		return nil
	}, mgr.Add(w)
}

// warmer fills the caches of a manager.
type warmer struct {
	mgr     ctrl.Manager
	objects []client.Object
	known   *discovery.DiscoveryClient
	done    atomic.Bool
}

// NeedLeaderElection says that standbys are warmed too.
func (w *warmer) NeedLeaderElection() bool { return false }

// Start returns when the caches are filled, however long the API server is away.
func (w *warmer) Start(ctx context.Context) error {
	for _, obj := range w.objects {
		for !w.filled(ctx, obj) {
			select {
			case <-ctx.Done():
				return nil
			default:
			}
		}
	}
	w.done.Store(true)
	return nil
}

// filled waits a moment for the objects of a kind. A kind that the API server does not know
// has none, and must not keep us from looking after the others; whoever installs it later
// finds it watched.
func (w *warmer) filled(ctx context.Context, obj client.Object) bool {
	moment, cancel := context.WithTimeout(ctx, retrySync)
	defer cancel()
	if _, err := w.mgr.GetCache().GetInformer(moment, obj); err == nil {
		return true
	}
	<-moment.Done() // also when it failed at once
	return w.unknown(ctx, obj)
}

// unknown says whether the API server answers that there is no such kind.
func (w *warmer) unknown(ctx context.Context, obj client.Object) bool {
	gvk, err := apiutil.GVKForObject(obj, w.mgr.GetScheme())
	if err != nil {
		return false
	}
	known, err := knows(w.known)(ctx, gvk)
	return err == nil && !known
}
