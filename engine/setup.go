package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
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

// childKind is a kind of child that is watched.
type childKind struct {
	object client.Object
	list   func() client.ObjectList
	gvk    schema.GroupVersionKind
}

// Everything that is watched: children, pods for what they tell, and of what pods take
// configuration from that it exists and changes.
var (
	statefulSetKind = childKind{&appsv1.StatefulSet{}, func() client.ObjectList { return &appsv1.StatefulSetList{} }, desired.KindStatefulSet}
	revisionKind    = childKind{&appsv1.ControllerRevision{}, func() client.ObjectList { return &appsv1.ControllerRevisionList{} }, desired.KindRevision}

	childKinds = []childKind{
		{&appsv1.Deployment{}, func() client.ObjectList { return &appsv1.DeploymentList{} }, desired.KindDeployment},
		statefulSetKind,
		{&corev1.Service{}, func() client.ObjectList { return &corev1.ServiceList{} }, desired.KindService},
		{&batchv1.Job{}, func() client.ObjectList { return &batchv1.JobList{} }, desired.KindJob},
		{&batchv1.CronJob{}, func() client.ObjectList { return &batchv1.CronJobList{} }, desired.KindCronJob},
		{&corev1.ConfigMap{}, func() client.ObjectList { return &corev1.ConfigMapList{} }, desired.KindConfigMap},
		{&autoscalingv2.HorizontalPodAutoscaler{}, func() client.ObjectList { return &autoscalingv2.HorizontalPodAutoscalerList{} }, desired.KindAutoscaler},
		{&policyv1.PodDisruptionBudget{}, func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }, desired.KindBudget},
		{&networkingv1.Ingress{}, func() client.ObjectList { return &networkingv1.IngressList{} }, desired.KindIngress},
		revisionKind,
	}
	// optionalChildKinds are of kinds that are not part of Kubernetes.
	optionalChildKinds = []childKind{
		{unstructuredObject(desired.KindRoute), func() client.ObjectList { return unstructuredList(desired.KindRoute) }, desired.KindRoute},
	}
	podObject      = &corev1.Pod{}
	configRefKinds = []string{desired.RefConfigMap, desired.RefSecret}
)

func unstructuredObject(kind schema.GroupVersionKind) client.Object {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

func unstructuredList(kind schema.GroupVersionKind) client.ObjectList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return l
}

// partialMetadata is the metadata of a kind that pods take configuration from.
func partialMetadata(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

// Setup makes a manager run a kind. The manager must be made with [NewManager].
func Setup[T Object](mgr ctrl.Manager, kind Kind[T], o Options) error {
	o = o.withDefaults()
	gvk, err := apiutil.GVKForObject(kind.New(), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up a kind: %w", err)
	}
	if err := addIndexes(mgr); err != nil {
		return err
	}
	cache, ok := mgr.GetCache().(compositeCache)
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
		optionalKinds: optionalKinds{},
		configRefs: configrefs.New(mgr.GetClient(), mgr.GetAPIReader(),
			configrefs.NewHMACKey(o.Namespace, mgr.GetAPIReader(), mgr.GetClient())),
	}
	b := ctrl.NewControllerManagedBy(perSourceSyncManager{mgr}).
		Named(strings.ToLower(gvk.Kind)).
		WithOptions(controllerOptions(o, limiter)).
		For(kind.New(), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool { return !r.ownWrites.isOwnWrite(e.ObjectOld, e.ObjectNew) },
		})).
		Watches(kind.New(), prioritizeUnobserved[T]()).
		Watches(podObject, handler.EnqueueRequestsFromMapFunc(requestsForPod)).
		Watches(claimObject, r.retainedHandler())
	b.WatchesRawSource(r.databaseProbeSource(mgr))
	r.watchChildren(b, cache, isServedFunc(discoveryClient))
	for _, kind := range configRefKinds {
		b = b.WatchesMetadata(partialMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.configRefs.RequestsForConsumers(kind)))
	}
	b = b.WatchesMetadata(partialMetadata(desired.RefSecret), r.retainedHandler())
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
func (r *reconciler[T]) watchChildren(b *builder.Builder, cache compositeCache, isServed func(context.Context, schema.GroupVersionKind) (bool, error)) {
	newHandler := func(child childKind) handler.EventHandler {
		return childHandler{owner: r.gvk.GroupKind(), gvk: child.gvk, applier: r.applier}.eventHandler()
	}
	for _, child := range childKinds {
		b.Watches(child.object, newHandler(child))
	}
	for _, child := range optionalChildKinds {
		o := &optionalKind{childKind: child, cache: cache, isServed: isServed, handler: newHandler(child), clock: r.clock, initialized: make(chan struct{})}
		r.optionalKinds[child.gvk] = o
		b.WatchesRawSource(o)
	}
}

// perSourceSyncManager is a manager whose controllers wait for what they watch themselves. Left to
// itself, each waits for the whole cache: a kind whose CRD is missing would keep all others
// from working.
type perSourceSyncManager struct{ ctrl.Manager }

// GetCache is what controllers watch through.
func (m perSourceSyncManager) GetCache() ctrlcache.Cache {
	return perSourceSyncCache{m.Manager.GetCache()}
}

type perSourceSyncCache struct{ ctrlcache.Cache }

// WaitForCacheSync leaves the waiting to each source: it returns when its own informer has
// told it everything.
func (perSourceSyncCache) WaitForCacheSync(context.Context) bool { return true }

// addIndexes adds what the reconciler looks objects up by. Every kind asks for the same ones.
func addIndexes(mgr ctrl.Manager) error {
	ctx, indexer := context.Background(), mgr.GetFieldIndexer()
	for _, child := range childKinds {
		if err := indexer.IndexField(ctx, child.object, indexOwner, ownerIndexKeys); err != nil {
			return err
		}
	}
	secret := partialMetadata(desired.RefSecret)
	for _, idx := range []struct {
		object    client.Object
		field     string
		indexFunc client.IndexerFunc
	}{
		{podObject, indexWorkload, workloadIndexKeys}, {statefulSetKind.object, indexWorkload, workloadIndexKeys},
		{claimObject, indexWorkload, workloadIndexKeys}, {secret, indexWorkload, workloadIndexKeys},
		{claimObject, indexRetained, retainedIndexKeys}, {secret, indexRetained, retainedIndexKeys},
	} {
		if err := indexer.IndexField(ctx, idx.object, idx.field, idx.indexFunc); err != nil {
			return err
		}
	}
	return nil
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
