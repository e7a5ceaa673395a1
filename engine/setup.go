package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/configrefs"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/managercache"
)

// reconcileTimeout ends a reconcile that hangs: it must not keep its worker for ever. It is longer
// than an admission webhook may take, for each of two rounds of writes.
const reconcileTimeout = 2 * time.Minute

// noTimeout is long enough for an API server, or our own CRDs, to appear: the operator
// waits for them, it does not exit.
const noTimeout = time.Duration(math.MaxInt64)

// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs;cronjobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup makes a manager run a kind. The manager must be made with [NewManager].
func Setup[T Object](mgr ctrl.Manager, kind Kind[T], o Options) error {
	o = o.withDefaults()
	gvk, err := apiutil.GVKForObject(kind.New(), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up a kind: %w", err)
	}
	if err := managercache.AddIndexes(mgr); err != nil {
		return err
	}
	cache, ok := mgr.GetCache().(managercache.Composite)
	if !ok {
		return fmt.Errorf("set up %s: create the manager with engine.NewManager: its cache is a %T", gvk.Kind, mgr.GetCache())
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("ask the API server which kinds it knows: %w", err)
	}
	limiter := newBackoff(o.MaxBackoff)
	applier := apply.New(cache, mgr.GetAPIReader(), mgr.GetClient(), clock.RealClock{})
	applier.MaxBackoff = o.MaxBackoff
	r := &reconciler[T]{
		kind:          withDatabaseServers(kind),
		gvk:           gvk,
		client:        mgr.GetClient(),
		cache:         cache,
		apiReader:     mgr.GetAPIReader(),
		applier:       applier,
		events:        eventRecorder{mgr.GetEventRecorder("holdfast")},
		eventReader:   newEventReader(mgr.GetAPIReader(), clock.RealClock{}),
		clock:         clock.RealClock{},
		backoff:       limiter,
		retryLimiter:  newRetryLimiter(o.Workers),
		staleBackoff:  workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](initialBackoff, maxUnreachableBackoff),
		ownWrites:     newOwnWrites[T](),
		optionalKinds: managercache.OptionalKinds{},
		configRefs: configrefs.New(mgr.GetClient(), mgr.GetAPIReader(),
			configrefs.NewHMACKey(o.Namespace, mgr.GetAPIReader(), mgr.GetClient())),
	}
	b := ctrl.NewControllerManagedBy(managercache.PerSourceSync{Manager: mgr}).
		Named(strings.ToLower(gvk.Kind)).
		WithOptions(controllerOptions(o, limiter)).
		For(kind.New(), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool { return !r.ownWrites.isOwnWrite(e.ObjectOld, e.ObjectNew) },
		})).
		Watches(kind.New(), prioritizeUnobserved[T]()).
		Watches(managercache.PodObject, handler.EnqueueRequestsFromMapFunc(requestsForPod)).
		Watches(managercache.ClaimObject, r.retainedHandler())
	b.WatchesRawSource(r.databaseProbeSource(mgr))
	r.watchChildren(b, cache, managercache.IsServedFunc(discoveryClient))
	for _, kind := range managercache.ConfigRefKinds {
		b = b.WatchesMetadata(managercache.PartialMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.configRefs.RequestsForConsumers(kind)))
	}
	b = b.WatchesMetadata(managercache.PartialMetadata(desired.RefSecret), r.retainedHandler())
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up %s: %w", gvk.Kind, err)
	}
	return nil
}

func controllerOptions(o Options, limiter *backoff) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: o.Workers,
		RateLimiter:             limiter,
		CacheSyncTimeout:        noTimeout,
		ReconciliationTimeout:   reconcileTimeout,
	}
}

// watchChildren makes a controller watch what the objects of its kind consist of.
func (r *reconciler[T]) watchChildren(b *builder.Builder, cache managercache.Composite, isServed func(context.Context, schema.GroupVersionKind) (bool, error)) {
	newHandler := func(child managercache.ChildKind) handler.EventHandler {
		return childHandler{owner: r.gvk.GroupKind(), gvk: child.GVK, applier: r.applier}.eventHandler()
	}
	for _, child := range managercache.ChildKinds {
		b.Watches(child.Object, newHandler(child))
	}
	for _, child := range managercache.OptionalChildKinds {
		o := managercache.NewOptionalKind(child, cache, isServed, newHandler(child), r.clock)
		r.optionalKinds[child.GVK] = o
		b.WatchesRawSource(o)
	}
}

// requestsForPod wakes the object whose name a pod carries. Which kind it is the label does
// not say: a wrong guess finds nothing and costs nothing.
func requestsForPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[appsapi.LabelInstance]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// childHandler wakes the owner of a child, also when its reference was taken away.
type childHandler struct {
	owner   schema.GroupKind
	gvk     schema.GroupVersionKind
	applier *apply.Applier
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (h childHandler) eventHandler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { h.enqueueOwners(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { h.enqueueOwners(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			h.applier.ObserveDeleted(e.Object, h.gvk)
			h.enqueueOwners(q, e.Object)
		},
	}
}

func (h childHandler) enqueueOwners(q queue, objs ...client.Object) {
	for _, child := range objs {
		if name := h.ownerName(child); name != "" {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}})
		}
	}
}

func (h childHandler) ownerName(child client.Object) string {
	if ref := metav1.GetControllerOfNoCopy(child); ref != nil {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == h.owner.Group && ref.Kind == h.owner.Kind {
			return ref.Name
		}
		return ""
	}
	if l := child.GetLabels(); l[appsapi.LabelOwnerKind] == desired.KindLabel(h.owner) {
		return l[appsapi.LabelInstance]
	}
	return ""
}
