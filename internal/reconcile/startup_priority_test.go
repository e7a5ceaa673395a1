package reconcile

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestUnobservedApplicationsAreQueuedFirst checks that after a restart, applications that were edited
// or deleted meanwhile are reconciled before unchanged ones.
func TestUnobservedApplicationsAreQueuedFirst(t *testing.T) {
	app := func(name string, generation, observed int64) *appsapi.AppService {
		a := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: generation}}
		a.Status.ObservedGeneration = observed
		return a
	}
	deleted := app("going", 3, 3)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	for _, a := range []*appsapi.AppService{app("calm", 1, 1), app("quiet", 7, 7), app("edited", 2, 1), app("still", 1, 1), deleted, app("new", 1, 0)} {
		e := event.CreateEvent{Object: a, IsInInitialList: true}
		handler.WithLowPriorityWhenUnchanged(&handler.EnqueueRequestForObject{}).Create(t.Context(), e, q)
		prioritizeUnobserved{}.Create(t.Context(), e, q)
	}
	var order []string
	for range 6 {
		r, _ := q.Get()
		order = append(order, r.Name)
		q.Done(r)
	}
	first, rest := order[:3], order[3:]
	slices.Sort(first)
	slices.Sort(rest)
	if !slices.Equal(first, []string{"edited", "going", "new"}) || !slices.Equal(rest, []string{"calm", "quiet", "still"}) {
		t.Errorf("reconciled first: %v, then: %v", first, rest)
	}
	// Later events are left to the default handler.
	prioritizeUnobserved{}.Create(t.Context(), event.CreateEvent{Object: app("late", 1, 0)}, q)
	if n := q.Len(); n != 0 {
		t.Errorf("%d requests are queued, want none", n)
	}
}
