package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// prioritizeUnobserved puts what somebody edited while no operator ran before everything else that a start
// finds: thousands of objects come then, and nearly all of them are as their status says. The
// framework's own handler has them all wait in one line.
func prioritizeUnobserved[T Object]() handler.EventHandler { return unobservedHandler[T]{} }

type unobservedHandler[T Object] struct{ handler.Funcs }

// Create is not the one of handler.Funcs, which makes everything of a start wait.
func (unobservedHandler[T]) Create(_ context.Context, e event.CreateEvent, q queue) {
	pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok || !e.IsInInitialList || !isUnobserved[T](e.Object) {
		return // for others the usual handler is enough
	}
	pq.AddWithOpts(priorityqueue.AddOpts{}, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}})
}

func isUnobserved[T Object](o client.Object) bool {
	app, ok := o.(T)
	return ok && (app.ApplicationStatus().ObservedGeneration < app.GetGeneration() || app.GetDeletionTimestamp() != nil)
}
