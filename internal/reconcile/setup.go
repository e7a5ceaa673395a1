package reconcile

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/configrefs"
	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/servercert"
)

const (
	// reconcileTimeout frees the worker of a reconcile that hangs. It allows two rounds of writes
	// that each take the maximum timeout of an admission webhook.
	reconcileTimeout = 2 * time.Minute
	// noTimeout lets the operator wait for an API server, or for our own CRDs, instead of exiting.
	noTimeout = time.Duration(math.MaxInt64)
)

// Options of a controller.
type Options struct {
	Workers    int
	MaxBackoff time.Duration
	// Namespace is the namespace of the operator.
	Namespace string
}

// Setup adds a controller for a kind to a manager that has the cache of managercache.New.
func Setup(mgr ctrl.Manager, kind Kind, o Options) error {
	cache, ok := mgr.GetCache().(managercache.Composite)
	if !ok {
		return fmt.Errorf("set up %s: the cache of the manager is a %T; create the manager with engine.NewManager", kind.GVK.Kind, mgr.GetCache())
	}
	kind.Keys = cache.Keys
	childKinds, err := childkind.NewSet(kind.Types, kind.History != nil)
	if err != nil {
		return fmt.Errorf("set up %s: %w", kind.GVK.Kind, err)
	}
	if err := managercache.Require(cache, &childKinds); err != nil {
		return err
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("set up %s: %w", kind.GVK.Kind, err)
	}
	applier := apply.New(cache, mgr.GetAPIReader(), mgr.GetClient(), clock.RealClock{})
	applier.MaxBackoff = o.MaxBackoff
	certificates := servercert.NewIssuer(kind.Keys, o.Namespace, mgr.GetAPIReader(), mgr.GetClient(), clock.RealClock{})
	applier.Certificates = certificates
	configRefs := configrefs.New(kind.Keys, mgr.GetClient(), mgr.GetAPIReader(), configrefs.NewHMACKey(kind.Keys, o.Namespace, mgr.GetAPIReader(), mgr.GetClient()))
	prober, probeSource := newProbeSource(mgr, kind, certificates)
	optionalKinds := managercache.OptionalKinds{}
	r := newReconciler(kind, mgr.GetClient(), o, &execute.Executor{
		Kind: kind.Kind, ChildKinds: childKinds, Cache: cache, APIReader: mgr.GetAPIReader(), Writer: applier, Clock: clock.RealClock{}, OwnWrites: execute.NewOwnWrites(),
		ConfigRefs: configRefs, OptionalKinds: optionalKinds,
		Databases: &databases{cache: cache, apiReader: mgr.GetAPIReader(), clock: clock.RealClock{}, prober: prober},
	})
	r.events = eventRecorder{mgr.GetEventRecorder(kind.Keys.FieldManager)}
	r.forgetOwner = func(owner types.UID) { applier.ForgetOwner(owner); r.drift.forget(owner) }
	r.forgetName = func(name types.NamespacedName) { configRefs.Forget(name); prober.Forget(name) }

	b := ctrl.NewControllerManagedBy(managercache.PerSourceSync{Manager: mgr}).
		Named(strings.ToLower(kind.GVK.Kind)).
		WithOptions(controllerOptions(o, r.backoff)).
		WithLogConstructor(newLogConstructor(mgr.GetLogger(), kind.GVK.Kind)).
		For(kind.New(), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool { return !r.OwnWrites.IsOwnWrite(e.ObjectOld, e.ObjectNew) },
		})).
		Watches(kind.New(), prioritizeUnobserved{}).
		WatchesRawSource(probeSource)
	w := watcher{keys: kind.Keys, owner: kind.GVK.GroupKind(), applier: applier, cache: cache}
	for _, child := range childKinds.Required {
		b.Watches(child.Object, w.childHandler(child.GVK))
	}
	for _, child := range childKinds.Optional {
		o := managercache.NewOptionalKind(child, cache, managercache.IsServedFunc(discoveryClient), w.childHandler(child.GVK), clock.RealClock{})
		optionalKinds[child.GVK] = o
		b.WatchesRawSource(o)
	}
	w.watchPodsAndData(b, &childKinds, configRefs)
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up %s: %w", kind.GVK.Kind, err)
	}
	return nil
}

// watchPodsAndData watches objects that are not children: pods, claims, Secrets and ConfigMaps.
func (w watcher) watchPodsAndData(b *builder.Builder, childKinds *childkind.Set, configRefs *configrefs.HashCache) {
	b.Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(requestsForPod))
	if childKinds.Data {
		b.Watches(&corev1.PersistentVolumeClaim{}, w.retainedHandler())
		b.WatchesMetadata(childkind.NewConfigRefMetadata(desired.RefSecret), w.retainedHandler())
	}
	if childKinds.ConfigRefs {
		for _, ref := range childkind.ConfigRefs {
			b.WatchesMetadata(childkind.NewConfigRefMetadata(ref), handler.EnqueueRequestsFromMapFunc(configRefs.RequestsForConsumers(ref)))
		}
	}
}

func newReconciler(kind Kind, c client.Client, o Options, e *execute.Executor) *Reconciler {
	return &Reconciler{
		Executor: e, kind: kind, client: c,
		drift:        newDriftLog(),
		eventReader:  newEventReader(e.APIReader, e.Clock),
		backoff:      newBackoff(o.MaxBackoff),
		retryLimiter: newRetryLimiter(o.Workers),
		staleBackoff: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](initialBackoff, maxUnreachableBackoff),
	}
}

func controllerOptions(o Options, limiter *backoff) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: o.Workers,
		RateLimiter:             limiter,
		CacheSyncTimeout:        noTimeout,
		ReconciliationTimeout:   reconcileTimeout,
	}
}

// newLogConstructor returns a function that returns the logger of a reconcile. Its lines name the
// application once, while the default repeats the kind, the name and the namespace in other keys.
func newLogConstructor(logger logr.Logger, kind string) func(*reconcile.Request) logr.Logger {
	return func(req *reconcile.Request) logr.Logger {
		if req == nil {
			return logger.WithValues("controller", strings.ToLower(kind))
		}
		return logger.WithValues(kind, klog.KRef(req.Namespace, req.Name))
	}
}

// newProbeSource returns a prober of database servers, and a source that requeues the applications
// whose databases have a new result.
func newProbeSource(mgr ctrl.Manager, kind Kind, certificates *servercert.Issuer) (*database.Prober, source.Source) {
	results := make(chan event.GenericEvent, database.MaxConcurrentProbes)
	databaseReconciler := &database.Reconciler{
		Keys: kind.Keys, Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: clock.RealClock{}, Certificates: certificates,
	}
	prober := database.NewProber(databaseReconciler, clock.RealClock{},
		func(ctx context.Context, app types.NamespacedName) {
			obj := kind.New()
			obj.SetNamespace(app.Namespace)
			obj.SetName(app.Name)
			select {
			case results <- event.GenericEvent{Object: obj}:
			case <-ctx.Done():
			}
		})
	requests := source.Channel(results, &handler.EnqueueRequestForObject{})
	return prober, source.Func(func(ctx context.Context, q queue) error {
		prober.Start(ctx)
		return requests.Start(ctx, q)
	})
}
