package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// An object is deleted in one of three ways, and we do our part of one of them:
//
//	background  our finalizer keeps it; its components go in reverse order, then it goes
//	foreground  the garbage collector deletes every child at once; we wait for that
//	orphan      the children stay; nothing is deleted

// finish takes an object that is being deleted apart. Nothing is created any more.
func (r *reconciler[T]) finish(ctx context.Context, req ctrl.Request, app T, owner desired.Owner) (ctrl.Result, error) {
	if !slices.Contains(app.GetFinalizers(), appsapi.FinalizerOrderedDeletion) {
		return ctrl.Result{}, nil // the garbage collector does the rest
	}
	done := newOutcome(owner.Namespace, nil)
	var down rollout.Teardown
	if slices.Contains(app.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		down.Done = true
	} else if done.seen, done.failed = r.ours(ctx, owner); done.failed == nil {
		down = rollout.Down(owner, done.seen)
	}
	if down.Done {
		done.other = r.holdDeletion(ctx, app, false)
		return r.result(req, report{}, &done, nil)
	}
	for _, d := range down.Delete {
		if _, err := r.applier.Remove(ctx, owner, d.Child, done.seen[d.Child].(client.Object)); err != nil {
			done.errors[d.Child] = err
		}
	}
	if done.stale() {
		return ctrl.Result{RequeueAfter: r.stale.When(req)}, nil
	}
	report, err := r.reportDeletion(ctx, app, down, &done)
	return r.result(req, report, &done, err)
}

// holdDeletion sets or removes our finalizer, if that changes anything.
func (r *reconciler[T]) holdDeletion(ctx context.Context, app T, hold bool) error {
	before := app.GetFinalizers()
	if slices.Contains(before, appsapi.FinalizerOrderedDeletion) == hold {
		return nil
	}
	after := append(slices.Clone(before), appsapi.FinalizerOrderedDeletion)
	if !hold {
		after = slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == appsapi.FinalizerOrderedDeletion })
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": app.GetUID(), "resourceVersion": app.GetResourceVersion(), "finalizers": after,
	}})
	if err != nil {
		return err
	}
	answer := r.kind.New()
	answer.SetNamespace(app.GetNamespace())
	answer.SetName(app.GetName())
	err = r.client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(appsapi.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return nil // gone: that was the point
	case apierrors.IsConflict(err):
		return fmt.Errorf("change finalizers of %s %s: %w", r.gvk.Kind, klog.KObj(app), errors.Join(err, apply.ErrStale))
	case err != nil:
		return fmt.Errorf("change finalizers of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	answer.SetManagedFields(nil)
	r.written.remember(answer)
	return nil
}
