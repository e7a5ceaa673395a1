package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	orphaned := slices.Contains(app.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if orphaned {
		down.Done = true
	} else if done.seen, done.failed = r.ours(ctx, owner); done.failed == nil {
		down = r.down(ctx, owner, &done)
	}
	if down.Done && !orphaned && !r.settle(ctx, app, owner, &done) {
		down = rollout.Teardown{Waits: []rollout.Kept{{Why: "Its data has to go first"}}}
		done.wait = dataPoll
	}
	if down.Done {
		done.other = r.holdDeletion(ctx, app, false)
		return r.result(req, report{}, &done, nil)
	}
	unseen := r.applier.Unseen(owner)
	for _, d := range down.Delete {
		if slices.Contains(unseen, d.Child) {
			// Nobody would see it on its way out, and what it needs would go before it.
			done.errors[d.Child] = fmt.Errorf("%s %s is not in the cache yet: %w", d.Child.Kind.Kind, d.Child.Name, apply.ErrStale)
			continue
		}
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

// dataPoll is how often it is looked whether data that was deleted has gone.
const dataPoll = 2 * time.Second

// newborn is how long the garbage collector may take to see a pod.
const newborn = time.Minute

// down plans what goes now: nothing while a pod has yet to end whose workload is gone.
func (r *reconciler[T]) down(ctx context.Context, owner desired.Owner, done *outcome) rollout.Teardown {
	pod, err := r.straggler(ctx, owner)
	switch {
	case err != nil:
		done.failed = err
		return rollout.Teardown{}
	case pod == nil:
		return rollout.Down(owner, done.seen)
	}
	why := fmt.Sprintf("Pod %s has to end first", klog.KObj(pod))
	if pod.DeletionTimestamp == nil { // and if nobody deletes it, it was given away
		done.wait = newborn
	} else {
		why += ", it is being deleted since " + pod.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	return rollout.Teardown{Waits: []rollout.Kept{{Why: why}}}
}

// straggler is a pod that outlives its workload, the first by name. The garbage collector
// keeps a Deployment until its pods have ended, but for those that it has not seen yet:
// these it deletes a moment later. What they need is not known any more.
func (r *reconciler[T]) straggler(ctx context.Context, owner desired.Owner) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.InNamespace(owner.Namespace), client.MatchingLabels{appsapi.LabelInstance: owner.Name})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	var first *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		ends := pod.DeletionTimestamp != nil || r.clock.Since(pod.CreationTimestamp.Time) < newborn
		if !ends || first != nil && first.Name <= pod.Name {
			continue
		}
		there, err := r.hasWorkload(ctx, pod)
		if err != nil {
			return nil, err
		}
		if !there {
			first = pod
		}
	}
	return first, nil
}

// hasWorkload says whether the workload of a pod still exists, whoever owns it.
func (r *reconciler[T]) hasWorkload(ctx context.Context, pod *corev1.Pod) (bool, error) {
	for _, kind := range children {
		list := kind.list()
		err := r.client.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingLabels{appsapi.LabelWorkload: pod.Labels[appsapi.LabelWorkload]})
		if err != nil {
			return false, fmt.Errorf("list %ss of pod %s: %w", kind.kind.Kind, klog.KObj(pod), err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
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
	// Not with the resourceVersion: whoever edits labels fast enough could keep us from it,
	// and so from everything else.
	var was any
	if len(before) > 0 {
		was = before
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": app.GetUID()},
		{"op": "test", "path": "/metadata/finalizers", "value": was},
		{"op": "add", "path": "/metadata/finalizers", "value": after},
	})
	if err != nil {
		return err
	}
	answer := r.kind.New()
	answer.SetNamespace(app.GetNamespace())
	answer.SetName(app.GetName())
	err = r.client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(appsapi.FieldManager))
	switch {
	case apierrors.IsNotFound(err) && !hold:
		return nil // gone: that was the point
	// Nothing may be made for what is gone, or about to go. A test that fails is invalid.
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return fmt.Errorf("change finalizers of %s %s: %w", r.gvk.Kind, klog.KObj(app), errors.Join(err, apply.ErrStale))
	case err != nil:
		return fmt.Errorf("change finalizers of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	answer.SetManagedFields(nil)
	r.written.remember(answer)
	return nil
}
