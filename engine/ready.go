package engine

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// retrySync is how often a cache that could not be started is tried again.
const retrySync = time.Second

// Ready returns a check that holds once everything the manager reads is in its cache, the
// objects of the given kinds included. It fills the caches also while another replica
// leads, so that taking over does not begin with a list of the whole cluster.
func Ready(mgr ctrl.Manager, kinds ...Object) (healthz.Checker, error) {
	w := &warmer{mgr: mgr, objects: everything(kinds)}
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
	done    atomic.Bool
}

// NeedLeaderElection says that standbys are warmed too.
func (w *warmer) NeedLeaderElection() bool { return false }

// Start returns when the caches are filled, however long the API server is away.
func (w *warmer) Start(ctx context.Context) error {
	for _, obj := range w.objects {
		for {
			_, err := w.mgr.GetCache().GetInformer(ctx, obj)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(retrySync):
			}
		}
	}
	w.done.Store(true)
	return nil
}
