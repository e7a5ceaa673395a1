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
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// forever is long enough for an API server, or our own CRDs, to appear: the operator
// waits for them, it does not exit.
const forever = time.Duration(math.MaxInt64)

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
	kind   schema.GroupVersionKind
}

// Everything that is watched: children, pods for what they tell, and of what pods take
// configuration from that it exists and changes.
var (
	setKind      = childKind{&appsv1.StatefulSet{}, func() client.ObjectList { return &appsv1.StatefulSetList{} }, desired.KindStatefulSet}
	revisionKind = childKind{&appsv1.ControllerRevision{}, func() client.ObjectList { return &appsv1.ControllerRevisionList{} }, desired.KindRevision}

	children = []childKind{
		{&appsv1.Deployment{}, func() client.ObjectList { return &appsv1.DeploymentList{} }, desired.KindDeployment},
		setKind,
		{&corev1.Service{}, func() client.ObjectList { return &corev1.ServiceList{} }, desired.KindService},
		{&batchv1.Job{}, func() client.ObjectList { return &batchv1.JobList{} }, desired.KindJob},
		{&batchv1.CronJob{}, func() client.ObjectList { return &batchv1.CronJobList{} }, desired.KindCronJob},
		{&corev1.ConfigMap{}, func() client.ObjectList { return &corev1.ConfigMapList{} }, desired.KindConfigMap},
		{&autoscalingv2.HorizontalPodAutoscaler{}, func() client.ObjectList { return &autoscalingv2.HorizontalPodAutoscalerList{} }, desired.KindAutoscaler},
		{&policyv1.PodDisruptionBudget{}, func() client.ObjectList { return &policyv1.PodDisruptionBudgetList{} }, desired.KindBudget},
		{&networkingv1.Ingress{}, func() client.ObjectList { return &networkingv1.IngressList{} }, desired.KindIngress},
		revisionKind,
	}
	// optionalChildren are of kinds that are not part of Kubernetes.
	optionalChildren = []childKind{
		{unstructuredObject(desired.KindRoute), func() client.ObjectList { return unstructuredList(desired.KindRoute) }, desired.KindRoute},
	}
	pod     = &corev1.Pod{}
	sources = []string{desired.RefConfigMap, desired.RefSecret}
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

// sourceMetadata is the metadata of a kind that pods take configuration from.
func sourceMetadata(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

// Setup makes a manager run a kind. The manager's cache must be made with [NewCache].
func Setup[T Object](mgr ctrl.Manager, kind Kind[T], o Options) error {
	o = o.withDefaults()
	gvk, err := apiutil.GVKForObject(kind.New(), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up a kind: %w", err)
	}
	if err := index(mgr); err != nil {
		return err
	}
	cache, ok := mgr.GetCache().(splitCache)
	if !ok {
		return fmt.Errorf("set up %s: the manager needs the cache of engine.NewCache, and has %T", gvk.Kind, mgr.GetCache())
	}
	kinds, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("ask the API server which kinds it knows: %w", err)
	}
	limiter := newBackoff(o.MaxBackoff)
	applier := apply.New(cache, mgr.GetAPIReader(), mgr.GetClient(), clock.RealClock{})
	applier.MaxBackoff = o.MaxBackoff
	r := &reconciler[T]{
		kind:      withServers(kind),
		gvk:       gvk,
		client:    mgr.GetClient(),
		cache:     cache,
		live:      mgr.GetAPIReader(),
		applier:   applier,
		events:    recorder{mgr.GetEventRecorder("holdfast")},
		ears:      newEars(mgr.GetAPIReader(), clock.RealClock{}),
		clock:     clock.RealClock{},
		backoff:   limiter,
		ward:      newWard(o.Workers),
		stale:     workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, maxUnreachable),
		written:   newWritten[T](),
		optionals: optionals{},
		contents: newContents(mgr.GetClient(), mgr.GetAPIReader(),
			&contentKey{namespace: o.Namespace, reader: mgr.GetAPIReader(), writer: mgr.GetClient()}),
	}
	b := ctrl.NewControllerManagedBy(independent{mgr}).
		Named(strings.ToLower(gvk.Kind)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers,
			RateLimiter:             limiter,
			CacheSyncTimeout:        forever,
		}).
		For(kind.New(), builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool { return !r.written.echo(e.ObjectOld, e.ObjectNew) },
		})).
		Watches(kind.New(), unseenFirst[T]()).
		Watches(pod, handler.EnqueueRequestsFromMapFunc(byInstance)).
		Watches(claim, r.keptHandler())
	b.WatchesRawSource(r.askDatabases(mgr))
	r.watchChildren(b, cache, knows(kinds))
	for _, kind := range sources {
		b = b.WatchesMetadata(sourceMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.contents.usersOf(kind)))
	}
	b = b.WatchesMetadata(sourceMetadata(desired.RefSecret), r.keptHandler())
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up %s: %w", gvk.Kind, err)
	}
	return nil
}

// watchChildren makes a controller watch what the objects of its kind consist of.
func (r *reconciler[T]) watchChildren(b *builder.Builder, cache splitCache, known func(context.Context, schema.GroupVersionKind) (bool, error)) {
	handlerOf := func(child childKind) handler.EventHandler {
		return childHandler{owner: r.gvk.GroupKind(), kind: child.kind, applier: r.applier}.handler()
	}
	for _, child := range children {
		b.Watches(child.object, handlerOf(child))
	}
	for _, child := range optionalChildren {
		o := &optional{childKind: child, cache: cache, known: known, handler: handlerOf(child), clock: r.clock, looked: make(chan struct{})}
		r.optionals[child.kind] = o
		b.WatchesRawSource(o)
	}
}

// independent is a manager whose controllers wait for what they watch themselves. Left to
// itself, each waits for the whole cache: a kind whose CRD is missing would keep all others
// from working.
type independent struct{ ctrl.Manager }

// GetCache is what controllers watch through.
func (m independent) GetCache() ctrlcache.Cache { return ownSources{m.Manager.GetCache()} }

type ownSources struct{ ctrlcache.Cache }

// WaitForCacheSync leaves the waiting to each source: it returns when its own informer has
// told it everything.
func (ownSources) WaitForCacheSync(context.Context) bool { return true }

// index may be asked for by every kind; the indexes are the same.
func index(mgr ctrl.Manager) error {
	ctx, indexer := context.Background(), mgr.GetFieldIndexer()
	for _, child := range children {
		if err := addIndex(ctx, indexer, child.object, indexOwner, ownersOf); err != nil {
			return err
		}
	}
	secret := sourceMetadata(desired.RefSecret)
	for _, by := range []struct {
		object client.Object
		field  string
		of     client.IndexerFunc
	}{
		{pod, indexWorkload, workloadOf}, {setKind.object, indexWorkload, workloadOf},
		{claim, indexWorkload, workloadOf}, {secret, indexWorkload, workloadOf},
		{claim, indexKept, keptBy}, {secret, indexKept, keptBy},
	} {
		if err := addIndex(ctx, indexer, by.object, by.field, by.of); err != nil {
			return err
		}
	}
	return nil
}

func addIndex(ctx context.Context, indexer client.FieldIndexer, obj client.Object, field string, of client.IndexerFunc) error {
	err := indexer.IndexField(ctx, obj, field, of)
	if err != nil && !strings.Contains(err.Error(), "indexer conflict") {
		return fmt.Errorf("index %T by %s: %w", obj, field, err)
	}
	return nil
}

// byInstance wakes the object whose name a pod carries. Which kind it is the label does
// not say: a wrong guess finds nothing and costs nothing.
func byInstance(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[appsapi.LabelInstance]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// childHandler wakes the owner of a child, also when its reference was taken away.
type childHandler struct {
	owner   schema.GroupKind
	kind    schema.GroupVersionKind
	applier *apply.Applier
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func (h childHandler) handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { h.wake(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { h.wake(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			h.applier.Gone(e.Object, h.kind)
			h.wake(q, e.Object)
		},
	}
}

func (h childHandler) wake(q queue, states ...client.Object) {
	for _, child := range states {
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
	if l := child.GetLabels(); l[appsapi.LabelOwnerKind] == h.owner.Kind {
		return l[appsapi.LabelInstance]
	}
	return ""
}
