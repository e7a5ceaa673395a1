package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

const (
	// nameConflictPollInterval is how often we check whether a name has become free. The conflicting
	// object is not in the cache.
	nameConflictPollInterval = 15 * time.Second
	// maxStaleRetries limits the retries after outdated state. All retries together take one or two
	// seconds. Then the status is written anyway, so that an earlier status is not shown for long.
	maxStaleRetries = 6
)

// Reconcile reconciles one application. Applications that failed before use at most half of the
// workers.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if r.backoff.failedBefore(req) {
		if !r.retryLimiter.tryAcquire() {
			r.backoff.postpone(req)
			delay := retryLimitDelay + rand.N(retryLimitDelay)
			logRequeue(ctx, delay, "half of the workers are retrying failed applications")
			return reconcile.Result{RequeueAfter: delay}, nil
		}
		defer r.retryLimiter.release()
	}
	result, err := r.reconcile(ctx, req)
	if err != nil {
		result.Priority = new(handler.LowPriority)
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	app, err := r.getApplication(ctx, req.NamespacedName)
	if err != nil {
		r.backoff.recordFailure(req, err)
		return reconcile.Result{}, err
	}
	if app == nil {
		return reconcile.Result{}, nil
	}
	if app.GetDeletionTimestamp() != nil {
		return r.reconcileDelete(ctx, req, app)
	}
	s := r.Run(ctx, app)
	r.drift.record(app.GetUID(), s.Changes, r.Clock.Now())
	if s.IsStale() && r.staleBackoff.NumRequeues(req) < maxStaleRetries {
		status := app.ApplicationStatus() // unchanged: it would describe outdated state
		r.events.emit(ctx, r.kind.GVK, s, status, status)
		return r.requeueStale(ctx, req), nil
	}
	return r.requeue(ctx, req, s, r.updateStatus(ctx, s))
}

// reconcileDelete continues the deletion of an application.
func (r *Reconciler) reconcileDelete(ctx context.Context, req reconcile.Request, app execute.Application) (reconcile.Result, error) {
	if !slices.Contains(app.GetFinalizers(), r.kind.Keys.Finalizer) {
		return reconcile.Result{}, nil // the garbage collector does the rest
	}
	s, teardown := r.Teardown(ctx, app)
	if teardown.Done {
		return r.requeue(ctx, req, s, nil)
	}
	if s.IsStale() {
		return r.requeueStale(ctx, req), nil
	}
	return r.requeue(ctx, req, s, r.updateDeletionStatus(ctx, s, teardown))
}

// getApplication returns an application from the cache, or our own write if the write is newer; nil
// if the application does not exist.
func (r *Reconciler) getApplication(ctx context.Context, name types.NamespacedName) (execute.Application, error) {
	last := r.OwnWrites.LastWrite(name)
	cached := r.kind.New()
	err := r.client.Get(ctx, name, cached)
	if apierrors.IsNotFound(err) {
		uid := r.OwnWrites.Forget(name)
		r.forgetOwner(uid)
		r.eventReader.forget(uid)
		r.forgetName(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", r.kind.GVK.Kind, name, err)
	}
	app, replaced := r.OwnWrites.Newest(cached, last)
	r.forgetOwner(replaced)
	return app, nil
}

// requeue decides when to reconcile an application again.
func (r *Reconciler) requeue(ctx context.Context, req reconcile.Request, s *execute.Scope, statusErr error) (reconcile.Result, error) {
	if err := errors.Join(s.RetryErr(), statusErr); err != nil {
		r.backoff.recordFailure(req, err)
		return reconcile.Result{}, err
	}
	if s.IsStale() {
		return r.requeueStale(ctx, req), nil
	}
	r.staleBackoff.Forget(req)
	after := r.requeueAfter(s)
	if after > 0 {
		logRequeue(ctx, after, "a deadline, a probe or a repair is due")
	}
	return reconcile.Result{RequeueAfter: after}, nil
}

// requeueStale reconciles again soon, because the cache was behind the API server.
func (r *Reconciler) requeueStale(ctx context.Context, req reconcile.Request) reconcile.Result {
	after := r.staleBackoff.When(req)
	logRequeue(ctx, after, "the cache was behind the API server")
	return reconcile.Result{RequeueAfter: after}
}

// requeueAfter returns the delay until the next reconcile without a change; 0 means none.
func (r *Reconciler) requeueAfter(s *execute.Scope) time.Duration {
	var soonest time.Duration
	consider := func(d time.Duration) {
		if d > 0 && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	consider(s.RequeueAfter)
	consider(s.RetryRejectedAfter())
	if !s.RequeueAt.IsZero() {
		consider(max(s.RequeueAt.Sub(r.Clock.Now()), time.Millisecond))
	}
	if s.IsBlocked() {
		consider(nameConflictPollInterval + rand.N(nameConflictPollInterval/3))
	}
	return soonest
}

// logRequeue logs at V(1) why an application is reconciled again although nothing changed.
func logRequeue(ctx context.Context, after time.Duration, reason string) {
	log.FromContext(ctx).V(1).Info("Requeuing", "after", after.Round(time.Millisecond), "reason", reason)
}
