package reconcile

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// prioritizeUnobserved raises the priority of applications that were edited or deleted while no
// operator was running. After a restart there may be thousands of applications, nearly all of them
// unchanged, and the default handler queues all of them with low priority.
type prioritizeUnobserved struct{ handler.Funcs }

// Create enqueues an unobserved application. The default handler enqueues all other applications.
func (prioritizeUnobserved) Create(_ context.Context, e event.CreateEvent, q queue) {
	pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok || !e.IsInInitialList || !isUnobserved(e.Object) {
		return
	}
	pq.AddWithOpts(priorityqueue.AddOpts{}, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}})
}

func isUnobserved(o client.Object) bool {
	app, ok := o.(execute.Application)
	return ok && (app.ApplicationStatus().ObservedGeneration < app.GetGeneration() || app.GetDeletionTimestamp() != nil)
}
