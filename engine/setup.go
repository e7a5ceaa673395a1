package engine

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// +kubebuilder:rbac:groups=apps,resources=deployments;controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs;cronjobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=get;list;watch
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
	revisionKind = childKind{&appsv1.ControllerRevision{}, func() client.ObjectList { return &appsv1.ControllerRevisionList{} }, desired.KindRevision}

	children = []childKind{
		{&appsv1.Deployment{}, func() client.ObjectList { return &appsv1.DeploymentList{} }, desired.KindDeployment},
		{&corev1.Service{}, func() client.ObjectList { return &corev1.ServiceList{} }, desired.KindService},
		{&batchv1.Job{}, func() client.ObjectList { return &batchv1.JobList{} }, desired.KindJob},
		{&batchv1.CronJob{}, func() client.ObjectList { return &batchv1.CronJobList{} }, desired.KindCronJob},
		revisionKind,
	}
	pod     = &corev1.Pod{}
	sources = []string{desired.RefConfigMap, desired.RefSecret}
)

// sourceMetadata is the metadata of a kind that pods take configuration from.
func sourceMetadata(kind string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return m
}

// Setup makes a manager run a kind. The manager's cache must be made with [Cache].
func Setup[T Object](mgr ctrl.Manager, kind Kind[T], o Options) error {
	o = o.withDefaults()
	gvk, err := apiutil.GVKForObject(kind.New(), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("set up a kind: %w", err)
	}
	if err := index(mgr); err != nil {
		return err
	}
	limiter := newBackoff(o.MaxBackoff)
	applier := apply.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{})
	applier.MaxBackoff = o.MaxBackoff
	r := &reconciler[T]{
		kind:    kind,
		gvk:     gvk,
		client:  mgr.GetClient(),
		live:    mgr.GetAPIReader(),
		applier: applier,
		events:  recorder{mgr.GetEventRecorder("holdfast")},
		clock:   clock.RealClock{},
		backoff: limiter,
		stale:   workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, maxUnreachable),
		written: newWritten[T](),
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
		Watches(pod, handler.EnqueueRequestsFromMapFunc(byInstance))
	for _, child := range children {
		b = b.Watches(child.object, childHandler{owner: gvk.GroupKind(), kind: child.kind, applier: r.applier}.handler())
	}
	for _, kind := range sources {
		b = b.WatchesMetadata(sourceMetadata(kind), handler.EnqueueRequestsFromMapFunc(r.contents.usersOf(kind)))
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("set up %s: %w", gvk.Kind, err)
	}
	return nil
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
	add := func(obj client.Object, field string, of client.IndexerFunc) error {
		err := mgr.GetFieldIndexer().IndexField(context.Background(), obj, field, of)
		if err != nil && !strings.Contains(err.Error(), "indexer conflict") {
			return fmt.Errorf("index %T by %s: %w", obj, field, err)
		}
		return nil
	}
	for _, child := range children {
		if err := add(child.object, indexOwner, ownersOf); err != nil {
			return err
		}
	}
	return add(pod, indexWorkload, workloadOf)
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
