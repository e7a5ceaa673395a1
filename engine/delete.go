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
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// An object is deleted in one of three ways, and we do our part of one of them:
//
//	background  our finalizer keeps it; its components go in reverse order, then it goes
//	foreground  the garbage collector deletes every child at once; we wait for that
//	orphan      the children stay; nothing is deleted

// reconcileDelete takes an object that is being deleted apart. Nothing is created any more.
func (r *reconciler[T]) reconcileDelete(ctx context.Context, req ctrl.Request, app T, owner desired.Owner) (ctrl.Result, error) {
	if !slices.Contains(app.GetFinalizers(), appsapi.FinalizerOrderedDeletion) {
		return ctrl.Result{}, nil // the garbage collector does the rest
	}
	res := newResult(owner.Namespace, nil)
	var teardown rollout.Teardown
	orphaned := slices.Contains(app.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if orphaned {
		teardown.Done = true
	} else if res.children, res.observeErr = r.listChildren(ctx, owner); res.observeErr == nil {
		teardown = r.planTeardown(ctx, owner, &res)
	}
	if teardown.Done && !orphaned && !r.finalizeData(ctx, app, owner, &res) {
		teardown = rollout.Teardown{Terminating: []rollout.PendingRemoval{{Message: "Its data has to go first"}}}
		res.requeueAfter = dataDeletionPollInterval
	}
	if teardown.Done {
		res.objectErr = r.ensureFinalizer(ctx, app, false)
		return r.requeueResult(ctx, req, statusUpdate{}, &res, nil)
	}
	notCached := r.applier.NotYetCached(owner)
	for _, d := range teardown.Delete {
		if slices.Contains(notCached, d.Child) {
			// Nobody would see it on its way out, and what it needs would go before it.
			res.childErrs[d.Child] = fmt.Errorf("%s %s is not in the cache yet: %w", d.Child.Kind.Kind, d.Child.Name, apply.ErrStale)
			continue
		}
		if _, err := r.applier.Remove(ctx, owner, d.Child, res.children[d.Child].(client.Object)); err != nil {
			res.childErrs[d.Child] = err
		}
	}
	if res.isStale() {
		return r.requeueStale(ctx, req), nil
	}
	update, err := r.updateDeletionStatus(ctx, app, teardown, &res)
	return r.requeueResult(ctx, req, update, &res, err)
}

// dataDeletionPollInterval is how often it is looked whether data that was deleted has gone.
const dataDeletionPollInterval = 2 * time.Second

// podGCGracePeriod is how long the garbage collector may take to see a pod.
const podGCGracePeriod = time.Minute

// planTeardown plans what goes now: nothing while a pod has yet to end whose workload is gone.
func (r *reconciler[T]) planTeardown(ctx context.Context, owner desired.Owner, res *result) rollout.Teardown {
	pod, err := r.findPodWithoutWorkload(ctx, owner)
	switch {
	case err != nil:
		res.observeErr = err
		return rollout.Teardown{}
	case pod == nil:
		return rollout.PlanTeardown(owner, res.children)
	}
	reason := fmt.Sprintf("Pod %s has to end first", klog.KObj(pod))
	if pod.DeletionTimestamp == nil { // and if nobody deletes it, it was given away
		res.requeueAfter = podGCGracePeriod
	} else {
		reason += ", it is being deleted since " + pod.DeletionTimestamp.UTC().Format(time.RFC3339)
	}
	return rollout.Teardown{Terminating: []rollout.PendingRemoval{{Message: reason}}}
}

// findPodWithoutWorkload is a pod that outlives its workload, the first by name. The garbage collector
// keeps a Deployment until its pods have ended, but for those that it has not seen yet:
// these it deletes a moment later. What they need is not known any more.
func (r *reconciler[T]) findPodWithoutWorkload(ctx context.Context, owner desired.Owner) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.InNamespace(owner.Namespace), client.MatchingLabels{appsapi.LabelInstance: owner.Name})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	var first *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		mayTerminate := pod.DeletionTimestamp != nil || r.clock.Since(pod.CreationTimestamp.Time) < podGCGracePeriod
		if !mayTerminate || first != nil && first.Name <= pod.Name {
			continue
		}
		exists, err := r.workloadExists(ctx, pod)
		if err != nil {
			return nil, err
		}
		if !exists {
			first = pod
		}
	}
	return first, nil
}

// workloadExists says whether the workload of a pod still exists, whoever owns it.
func (r *reconciler[T]) workloadExists(ctx context.Context, pod *corev1.Pod) (bool, error) {
	for _, kind := range managercache.ChildKinds {
		list := kind.NewList()
		err := r.client.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingLabels{appsapi.LabelWorkload: pod.Labels[appsapi.LabelWorkload]})
		if err != nil {
			return false, fmt.Errorf("list %ss of pod %s: %w", kind.GVK.Kind, klog.KObj(pod), err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// ensureFinalizer sets or removes our finalizer, if that changes anything.
func (r *reconciler[T]) ensureFinalizer(ctx context.Context, app T, present bool) error {
	before := app.GetFinalizers()
	if slices.Contains(before, appsapi.FinalizerOrderedDeletion) == present {
		return nil
	}
	after := append(slices.Clone(before), appsapi.FinalizerOrderedDeletion)
	if !present {
		after = slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == appsapi.FinalizerOrderedDeletion })
	}
	// Not with the resourceVersion: whoever edits labels fast enough could keep us from it,
	// and so from everything else.
	var beforeValue any
	if len(before) > 0 {
		beforeValue = before
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": app.GetUID()},
		{"op": "test", "path": "/metadata/finalizers", "value": beforeValue},
		{"op": "add", "path": "/metadata/finalizers", "value": after},
	})
	if err != nil {
		return err
	}
	patched := r.kind.New()
	patched.SetNamespace(app.GetNamespace())
	patched.SetName(app.GetName())
	err = r.client.Patch(ctx, patched, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(appsapi.FieldManager))
	switch {
	case apierrors.IsNotFound(err) && !present:
		return nil // gone: that was the point
	// Nothing may be made for what is gone, or about to go. A test that fails is invalid.
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return fmt.Errorf("change finalizers of %s %s: %w", r.gvk.Kind, klog.KObj(app), errors.Join(err, apply.ErrStale))
	case err != nil:
		return fmt.Errorf("change finalizers of %s %s: %w", r.gvk.Kind, klog.KObj(app), err)
	}
	patched.SetManagedFields(nil)
	r.ownWrites.record(patched)
	return nil
}
