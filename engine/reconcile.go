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
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// conflictPoll is how often a name that is somebody else's is looked at: no watch of
// ours shows it going.
const conflictPoll = 15 * time.Second

// staleInARow is how often, within a second or two, a decision may meet a world that has
// moved on before the status says so: it must not say for long what was true before.
const staleInARow = 6

// reconciler is the one loop of all kinds.
type reconciler[T Object] struct {
	kind    Kind[T]
	gvk     schema.GroupVersionKind
	client  client.Client
	cache   client.Reader // also of kinds that are not compiled in, which client would read live
	live    client.Reader
	applier *apply.Applier
	events  recorder
	ears    *ears
	clock   clock.PassiveClock
	backoff *backoff
	ward    ward
	stale   workqueue.TypedRateLimiter[ctrl.Request] // apart from backoff: nothing failed
	written written[T]
	// optionals are the kinds that the cluster may not know.
	optionals optionals
	// contents are those of the ConfigMaps and Secrets that pods take configuration from.
	contents *contents
	// databases are asked apart from passes.
	databases *databases
}

// Reconcile is one pass. What failed before comes after what did not, and must leave room.
func (r *reconciler[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.backoff.failedBefore(req) {
		if !r.ward.enter() {
			r.backoff.postpone(req)
			return ctrl.Result{RequeueAfter: fullWard + rand.N(fullWard)}, nil
		}
		defer r.ward.leave()
	}
	result, err := r.pass(ctx, req)
	if err != nil {
		result.Priority = new(handler.LowPriority)
	}
	return result, err
}

// pass looks, decides, writes and reports.
func (r *reconciler[T]) pass(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj, err := r.get(ctx, req)
	if err != nil {
		r.backoff.note(req, err)
		return ctrl.Result{}, err
	}
	if obj == nil {
		return ctrl.Result{}, nil
	}
	app := *obj
	owner := r.owner(app)
	if app.GetDeletionTimestamp() != nil {
		return r.finish(ctx, req, app, owner)
	}
	o, err := r.observe(ctx, app, owner)
	done := newOutcome(owner.Namespace, o.seen)
	done.databases = o.databases
	if err == nil {
		r.act(ctx, app, owner, &o, &done)
	} else {
		done.failed = err
	}
	if done.stale() && r.stale.NumRequeues(req) < staleInARow {
		// Decided on something that was not so any more: no verdict, look again.
		return ctrl.Result{RequeueAfter: r.stale.When(req)}, nil
	}
	report, err := r.report(ctx, app, owner, &o, &done)
	return r.result(req, report, &done, err)
}

// result says when to look again.
func (r *reconciler[T]) result(req ctrl.Request, report report, done *outcome, err error) (ctrl.Result, error) {
	if err = errors.Join(done.err(), err); err != nil {
		r.backoff.note(req, err)
		return ctrl.Result{}, err
	}
	if done.stale() {
		return ctrl.Result{RequeueAfter: r.stale.When(req)}, nil
	}
	r.stale.Forget(req)
	return ctrl.Result{RequeueAfter: r.next(report, *done)}, nil
}

// act plans and does what is planned.
func (r *reconciler[T]) act(ctx context.Context, app T, owner desired.Owner, o *observed, done *outcome) {
	plan, err := rollout.For(rollout.Input{
		Owner: owner, Components: o.components, Seen: o.seen, KeepJobs: o.keepJobs,
		Kept: o.kept, DeleteData: r.deletesData(app), Databases: o.databases, Started: o.startedServers,
	})
	done.plan, done.invalid = plan, err
	if err != nil || len(plan.Steps) == 0 {
		return // what can never work, or hands off
	}
	if err := r.confirm(ctx, app, owner, o); err != nil {
		done.other = err
		return
	}
	// Before the first child: one that is deleted at once must find its order.
	if err := r.holdDeletion(ctx, app, rollout.Ordered(o.components, o.seen) || rollout.HasData(owner, o.components, o.kept)); err != nil {
		done.other = err
		return
	}
	switch err := r.remember(ctx, app, owner, o); {
	case waits(err):
		// Somebody else has the name. Nothing is pruned meanwhile, so nothing that a job
		// has done is forgotten.
		done.errors[desired.ID{Kind: desired.KindRevision, Name: desired.RevisionName(owner, o.spec.Hash)}] = err
	case err != nil:
		done.other = err
		return
	}
	for _, revision := range o.history.Forget {
		done.forgets[revision.Name] = true
	}
	r.prepare(ctx, app, owner, o, &plan, done)
	r.execute(ctx, app, owner, plan, done)
	r.grow(ctx, app, owner, o, plan, done)
	if len(done.errors) > 0 {
		return // prune only after everything else succeeded
	}
	for _, p := range plan.Prune {
		r.remove(ctx, app, owner, p.Component, p.Child, done)
	}
	r.settleLeftovers(ctx, app, owner, o, plan, done)
	done.other = r.forget(ctx, owner, o)
}

// get returns the object as we know it best, or nil when it is gone.
func (r *reconciler[T]) get(ctx context.Context, req ctrl.Request) (*T, error) {
	last, wrote := r.written.last(req.NamespacedName)
	obj := r.kind.New()
	err := r.client.Get(ctx, req.NamespacedName, obj)
	if apierrors.IsNotFound(err) {
		gone := r.written.forget(req.NamespacedName)
		r.applier.Forget(gone)
		r.ears.forget(gone)
		r.contents.use(req.NamespacedName, nil)
		r.databases.forget(req.NamespacedName)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", r.gvk.Kind, req.NamespacedName, err)
	}
	obj, replaced := r.written.newest(obj, last, wrote)
	r.applier.Forget(replaced)
	return &obj, nil
}

func (r *reconciler[T]) owner(obj T) desired.Owner {
	return desired.Owner{
		APIVersion: r.gvk.GroupVersion().String(), Kind: r.gvk.Kind,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), Generation: obj.GetGeneration(),
	}
}

// abreast is how many children of an application are written at the same time.
const abreast = 8

// execute applies the steps of a plan: what has to go first, all children at once, then
// what their components must not have.
func (r *reconciler[T]) execute(ctx context.Context, app T, owner desired.Owner, plan rollout.Plan, done *outcome) {
	type write struct {
		step   int
		child  rollout.Application
		result apply.Result
		err    error
	}
	var writes []write
	for i, step := range plan.Steps {
		for _, id := range step.First {
			r.remove(ctx, app, owner, step.Component, id, done)
		}
		for _, child := range step.Apply {
			writes = append(writes, write{step: i, child: child})
		}
	}
	var group errgroup.Group
	group.SetLimit(abreast)
	for i := range writes {
		w := &writes[i]
		current, _ := done.seen[w.child.ID].(client.Object)
		group.Go(func() error {
			if w.err = r.optionals.writable(ctx, owner.Namespace, w.child.ID); w.err == nil {
				w.result, w.err = r.applier.Apply(ctx, owner, w.child.Child, current, w.child.HoldPods)
				w.err = r.optionals.refine(ctx, owner.Namespace, w.child.ID, w.err)
			}
			return nil
		})
	}
	_ = group.Wait() // every write has its own error
	failed := map[int]bool{}
	for _, w := range writes {
		done.add(plan.Steps[w.step].Component, w.child.ID, w.result, w.err)
		failed[w.step] = failed[w.step] || w.err != nil
	}
	for i, step := range plan.Steps {
		for _, id := range step.Remove {
			if !failed[i] {
				r.remove(ctx, app, owner, step.Component, id, done)
			}
		}
	}
}

// stillSo asks the API server whether an object is what we decide on: the cache may be
// behind an edit, and another leader may have acted on that since.
func (r *reconciler[T]) stillSo(ctx context.Context, app T) error {
	current := r.kind.New()
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(app), current); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	if current.GetUID() != app.GetUID() || current.GetGeneration() != app.GetGeneration() {
		return fmt.Errorf("%s %s: %w", r.gvk.Kind, klog.KObj(app), apply.ErrStale)
	}
	return nil
}

// remove deletes a child that the spec does not want, if that is still what the object says.
func (r *reconciler[T]) remove(ctx context.Context, app T, owner desired.Owner, component string, id desired.ID, done *outcome) {
	if err := r.stillSo(ctx, app); err != nil {
		done.errors[id] = fmt.Errorf("before deleting %s %s: %w", id.Kind.Kind, id.Name, err)
		return
	}
	err := r.uncover(ctx, owner, id, done)
	removed := false
	if err == nil {
		removed, err = r.applier.Remove(ctx, owner, id, done.seen[id].(client.Object))
	}
	if err != nil {
		done.errors[id] = err
		return
	}
	if removed {
		done.changes = append(done.changes, change{component, id, removedChange})
		delete(done.seen, id)
	}
}

// next is when to look again although nothing happened; 0 means never.
func (r *reconciler[T]) next(report report, done outcome) time.Duration {
	var next time.Duration
	sooner := func(d time.Duration) {
		if d > 0 && (next == 0 || d < next) {
			next = d
		}
	}
	sooner(done.wait)
	sooner(done.retry())
	if !report.again.IsZero() {
		sooner(max(report.again.Sub(r.clock.Now()), time.Millisecond))
	}
	if done.blocked() {
		sooner(conflictPoll + rand.N(conflictPoll/3))
	}
	return next
}
