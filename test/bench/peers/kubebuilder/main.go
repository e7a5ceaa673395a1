// The program kubebuilder is contender C3: the pattern that kubebuilder scaffolds and its book describes, implemented
// for the benchmark on controller-runtime with its default cache and client. A reconciliation gets the AppService, adds
// a finalizer, updates the Deployment and the Service with CreateOrUpdate, and updates the status whether or not it has
// changed. The controller owns and watches both kinds.
//
// It deviates from the book in the peer's favor: fields that the API server defaults are not changed, so that
// CreateOrUpdate writes only if something differs, and retries only use their own backoff without a shared token bucket.
package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/peers/setup"
)

func main() {
	o := setup.ParseFlags()
	ctrl.SetLogger(klog.Background())
	ctx, stop := setup.SignalContext()
	defer stop()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(appsapi.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(o.Config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		setup.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&appsapi.AppService{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 1000*time.Second),
		}).
		Complete(&reconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()})
	if err != nil {
		setup.Fatal(err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return announceReady(ctx, mgr.GetCache()) })); err != nil {
		setup.Fatal(err)
	}
	if err := mgr.Start(ctx); err != nil {
		setup.Fatal(err)
	}
}

// announceReady reports readiness once the caches of the controller are synced.
func announceReady(ctx context.Context, c cache.Cache) error {
	for _, kind := range []client.Object{&appsapi.AppService{}, &appsv1.Deployment{}, &corev1.Service{}} {
		if _, err := c.GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("fill the cache of %T: %w", kind, err)
		}
	}
	setup.AnnounceReady()
	return nil
}
