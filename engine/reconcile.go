package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/configrefs"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// nameConflictPollInterval is how often a name that is somebody else's is looked at: no watch of
// ours shows it going.
const nameConflictPollInterval = 15 * time.Second

// maxStaleRetries is how often, within a second or two, a decision may meet a world that has
// moved on before the status says so: it must not say for long what was true before.
const maxStaleRetries = 6

// reconciler is the one loop of all kinds.
type reconciler[T Object] struct {
	kind         Kind[T]
	gvk          schema.GroupVersionKind
	client       client.Client
	cache        client.Reader // also of kinds that are not compiled in, which client would read live
	apiReader    client.Reader
	applier      *apply.Applier
	events       eventRecorder
	eventReader  *eventReader
	clock        clock.PassiveClock
	backoff      *backoff
	retryLimiter retryLimiter
	staleBackoff workqueue.TypedRateLimiter[ctrl.Request] // apart from backoff: nothing failed
	ownWrites    ownWrites[T]
	// optionalKinds are the kinds that the cluster may not know.
	optionalKinds managercache.OptionalKinds
	// configRefs has the hashes of the ConfigMaps and Secrets that pods refer to.
	configRefs *configrefs.HashCache
	// databaseProber are asked apart from passes.
	databaseProber *databaseProber
}

// Reconcile is one pass. What failed before comes after what did not, and must leave room.
func (r *reconciler[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.backoff.failedBefore(req) {
		if !r.retryLimiter.tryAcquire() {
			r.backoff.postpone(req)
			delay := retryLimitDelay + rand.N(retryLimitDelay)
			logRequeue(ctrl.LoggerFrom(ctx), delay, "half of the workers are busy with applications that failed before")
			return ctrl.Result{RequeueAfter: delay}, nil
		}
		defer r.retryLimiter.release()
	}
	ctrlResult, err := r.reconcile(ctx, req)
	if err != nil {
		ctrlResult.Priority = new(handler.LowPriority)
	}
	return ctrlResult, err
}

// reconcile looks, decides, writes and reports.
func (r *reconciler[T]) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj, err := r.getApplication(ctx, req)
	if err != nil {
		r.backoff.recordFailure(req, err)
		return ctrl.Result{}, err
	}
	if obj == nil {
		return ctrl.Result{}, nil
	}
	app := *obj
	owner := r.owner(app)
	if app.GetDeletionTimestamp() != nil {
		return r.reconcileDelete(ctx, req, app, owner)
	}
	o, err := r.observe(ctx, app, owner)
	res := newResult(owner.Namespace, o.children)
	res.databaseHealth = o.databaseHealth
	if err == nil {
		r.reconcileNormal(ctx, app, owner, &o, &res)
	} else {
		res.observeErr = err
	}
	if res.isStale() && r.staleBackoff.NumRequeues(req) < maxStaleRetries {
		// Decided on something that was not so any more: no verdict, look again.
		return r.requeueStale(ctx, req), nil
	}
	update, err := r.updateStatus(ctx, app, owner, &o, &res)
	return r.requeueResult(ctx, req, update, &res, err)
}

// requeueResult says when to look again.
func (r *reconciler[T]) requeueResult(ctx context.Context, req ctrl.Request, update statusUpdate, res *result, err error) (ctrl.Result, error) {
	if err = errors.Join(res.err(), err); err != nil {
		r.backoff.recordFailure(req, err)
		return ctrl.Result{}, err
	}
	if res.isStale() {
		return r.requeueStale(ctx, req), nil
	}
	r.staleBackoff.Forget(req)
	after := r.requeueAfter(update, *res)
	if after > 0 {
		logRequeue(ctrl.LoggerFrom(ctx), after, "a deadline, a probe or a repair is due")
	}
	return ctrl.Result{RequeueAfter: after}, nil
}

// requeueStale reconciles again soon: the cache was behind what was decided on.
func (r *reconciler[T]) requeueStale(ctx context.Context, req ctrl.Request) ctrl.Result {
	after := r.staleBackoff.When(req)
	logRequeue(ctrl.LoggerFrom(ctx), after, "the cache was behind the API server")
	return ctrl.Result{RequeueAfter: after}
}

// reconcileNormal plans and does what is planned.
func (r *reconciler[T]) reconcileNormal(ctx context.Context, app T, owner desired.Owner, o *observed, res *result) {
	plan, err := rollout.NewPlan(rollout.Input{
		Owner: owner, Components: o.components, Observed: o.children, ProtectedJobs: o.retainedJobs,
		Retained: o.retainedObjects, DeleteData: r.deletesData(app), DatabaseHealth: o.databaseHealth, StartedImages: o.startedImages,
	})
	res.plan, res.specErr = plan, err
	logPlan(ctrl.LoggerFrom(ctx), plan)
	if err != nil || len(plan.Steps) == 0 {
		return // what can never work, or hands off
	}
	if err := r.verifyAgainstAPIServer(ctx, app, owner, o); err != nil {
		res.objectErr = err
		return
	}
	// Before the first child: one that is deleted at once must find its order.
	if err := r.ensureFinalizer(ctx, app, rollout.RequiresOrder(o.components, o.children) || rollout.HasData(owner, o.components, o.retainedObjects)); err != nil {
		res.objectErr = err
		return
	}
	switch err := r.saveRevision(ctx, app, owner, o); {
	case isBlockedByOthers(err):
		// Somebody else has the name. Nothing is pruned meanwhile, so nothing that a job
		// has done is forgotten.
		res.childErrs[desired.ID{Kind: desired.KindRevision, Name: desired.RevisionName(owner, o.spec.Hash)}] = err
	case err != nil:
		res.objectErr = err
		return
	}
	for _, revision := range o.history.Prune {
		res.prunedRevisions[revision.Name] = true
	}
	r.prepareData(ctx, app, owner, o, &plan, res)
	r.execute(ctx, app, owner, plan, res)
	r.expandVolumes(ctx, app, owner, o, plan, res)
	if len(res.childErrs) > 0 {
		return // prune only after everything else succeeded
	}
	for _, p := range plan.Prune {
		r.pruneChild(ctx, app, owner, p.Component, p.Child, res)
	}
	r.reconcileUnusedData(ctx, app, owner, o, plan, res)
	res.objectErr = r.pruneRevisions(ctx, owner, o)
}

// getApplication returns the object as we know it best, or nil when it is gone.
func (r *reconciler[T]) getApplication(ctx context.Context, req ctrl.Request) (*T, error) {
	lastWrite, hasWrite := r.ownWrites.lastWrite(req.NamespacedName)
	obj := r.kind.New()
	err := r.client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		gone := r.ownWrites.forget(req.NamespacedName)
		r.applier.ForgetOwner(gone)
		r.eventReader.forget(gone)
		r.configRefs.Forget(req.NamespacedName)
		r.databaseProber.forget(req.NamespacedName)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", r.gvk.Kind, req.NamespacedName, err)
	}
	obj, replaced := r.ownWrites.newest(obj, lastWrite, hasWrite)
	r.applier.ForgetOwner(replaced)
	return &obj, nil
}

func (r *reconciler[T]) owner(obj T) desired.Owner {
	return desired.Owner{
		APIVersion: r.gvk.GroupVersion().String(), Kind: r.gvk.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), Generation: obj.GetGeneration(),
	}
}

// maxConcurrentWrites is how many children of an application are written at the same time.
const maxConcurrentWrites = 8

// execute applies the steps of a plan: what has to go first, all children at once, then
// what their components must not have.
func (r *reconciler[T]) execute(ctx context.Context, app T, owner desired.Owner, plan rollout.Plan, res *result) {
	type write struct {
		step   int
		child  rollout.ChildApply
		result apply.Result
		err    error
	}
	var writes []write
	for i, step := range plan.Steps {
		for _, id := range step.RemoveFirst {
			r.pruneChild(ctx, app, owner, step.Component, id, res)
		}
		for _, child := range step.Apply {
			writes = append(writes, write{step: i, child: child})
		}
	}
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	for i := range writes {
		w := &writes[i]
		current, _ := res.children[w.child.ID].(client.Object)
		group.Go(func() error {
			if w.err = r.optionalKinds.EnsureWritable(ctx, owner.Namespace, w.child.ID); w.err == nil {
				w.result, w.err = r.applier.Apply(ctx, owner, w.child.Child, current, w.child.HoldPodTemplate)
				w.err = r.optionalKinds.RefineError(ctx, owner.Namespace, w.child.ID, w.err)
			}
			return nil
		})
	}
	_ = group.Wait() // every write has its own error
	failedSteps := map[int]bool{}
	for _, w := range writes {
		res.recordApply(plan.Steps[w.step].Component, w.child.ID, w.result, w.err)
		failedSteps[w.step] = failedSteps[w.step] || w.err != nil
	}
	for i, step := range plan.Steps {
		for _, id := range step.Remove {
			if !failedSteps[i] {
				r.pruneChild(ctx, app, owner, step.Component, id, res)
			}
		}
	}
}

// verifyAppGeneration asks the API server whether an object is what we decide on: the cache may be
// behind an edit, and another leader may have acted on that since.
func (r *reconciler[T]) verifyAppGeneration(ctx context.Context, app T) error {
	current := r.kind.New()
	if err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(app), current); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	if current.GetUID() != app.GetUID() || current.GetGeneration() != app.GetGeneration() {
		return fmt.Errorf("%s %s: %w", r.gvk.Kind, klog.KObj(app), apply.ErrStale)
	}
	return nil
}

// pruneChild deletes a child that the spec does not want, if that is still what the object says.
func (r *reconciler[T]) pruneChild(ctx context.Context, app T, owner desired.Owner, component string, id desired.ID, res *result) {
	if err := r.verifyAppGeneration(ctx, app); err != nil {
		res.childErrs[id] = fmt.Errorf("before deleting %s %s: %w", id.Kind.Kind, id.Name, err)
		return
	}
	err := r.protectCompletedJobs(ctx, owner, id, res)
	removed := false
	if err == nil {
		removed, err = r.applier.Remove(ctx, owner, id, res.children[id].(client.Object))
	}
	if err != nil {
		res.childErrs[id] = err
		return
	}
	if removed {
		res.changes = append(res.changes, change{component, id, removedChange})
		delete(res.children, id)
	}
}

// requeueAfter is when to look again although nothing happened; 0 means never.
func (r *reconciler[T]) requeueAfter(update statusUpdate, res result) time.Duration {
	var soonest time.Duration
	consider := func(d time.Duration) {
		if d > 0 && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	consider(res.requeueAfter)
	consider(res.retryRejectedAfter())
	if !update.requeueAt.IsZero() {
		consider(max(update.requeueAt.Sub(r.clock.Now()), time.Millisecond))
	}
	if res.isBlocked() {
		consider(nameConflictPollInterval + rand.N(nameConflictPollInterval/3))
	}
	return soonest
}
