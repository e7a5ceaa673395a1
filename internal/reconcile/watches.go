package reconcile

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// watcher maps changes of objects to reconcile requests for their applications.
type watcher struct {
	keys    *appsapi.Keys
	owner   schema.GroupKind
	applier *apply.Applier
	cache   client.Reader
}

// requestsForPod requeues the application that the instance label of a pod names. The label does
// not contain the kind of the application: a request for the wrong kind finds no object and costs
// nothing.
func requestsForPod(_ context.Context, pod client.Object) []reconcile.Request {
	name := pod.GetLabels()[appsapi.LabelInstance]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}}
}

// childHandler requeues the owner of a child, even if its owner reference was removed.
func (w watcher) childHandler(kind schema.GroupVersionKind) handler.EventHandler {
	enqueue := func(q queue, objs ...client.Object) {
		for _, child := range objs {
			if name := w.ownerName(child); name != "" {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: name}})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueue(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			w.applier.ObserveDeleted(types.UID(e.Object.GetLabels()[w.keys.OwnerUID]), e.Object, kind)
			enqueue(q, e.Object)
		},
	}
}

// ownerName returns the name of the application of our kind that a child belongs to, or "".
func (w watcher) ownerName(child client.Object) string {
	if ref := metav1.GetControllerOfNoCopy(child); ref != nil {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == w.owner.Group && ref.Kind == w.owner.Kind {
			return ref.Name
		}
		return ""
	}
	if l := child.GetLabels(); l[w.keys.OwnerKind] == desired.KindLabel(w.owner) {
		return l[appsapi.LabelInstance]
	}
	return ""
}

// retainedHandler requeues the application that a claim or Secret belongs to.
func (w watcher) retainedHandler() handler.EventHandler {
	enqueue := func(ctx context.Context, q queue, objs ...client.Object) {
		for _, obj := range objs {
			if name := w.dataOwnerName(ctx, obj); name != "" {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}})
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
	}
}

// dataOwnerName returns the name of the application that a claim or Secret belongs to, or "". A new
// claim does not have the owner labels yet, but its StatefulSet does.
func (w watcher) dataOwnerName(ctx context.Context, obj client.Object) string {
	l := obj.GetLabels()
	switch {
	case l[w.keys.Workload] == "":
	case l[w.keys.OwnerKind] == desired.KindLabel(w.owner):
		return l[appsapi.LabelInstance]
	case l[w.keys.OwnerKind] == "":
		var sets appsv1.StatefulSetList
		err := w.cache.List(ctx, &sets, client.InNamespace(obj.GetNamespace()), client.MatchingFields{childkind.IndexWorkload: l[w.keys.Workload]})
		if err == nil && len(sets.Items) > 0 {
			return w.ownerName(&sets.Items[0])
		}
	}
	return ""
}
