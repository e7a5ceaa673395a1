package reconcile

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// Reconciler reconciles the applications of one kind.
type Reconciler struct {
	*execute.Executor
	kind   Kind
	client client.Client
	// forgetOwner and forgetName drop cached data about a deleted application.
	forgetOwner func(types.UID)
	forgetName  func(types.NamespacedName)

	drift        *driftLog
	events       eventRecorder
	eventReader  *eventReader
	backoff      *backoff
	retryLimiter retryLimiter
	staleBackoff workqueue.TypedRateLimiter[reconcile.Request] // for outdated state, which does not count as a failure
}
