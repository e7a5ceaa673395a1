package execute

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

const (
	// dataDeletionPollInterval is how often we check whether deleted data is gone.
	dataDeletionPollInterval = 2 * time.Second
	// podGCGracePeriod is how long the garbage collector may take to detect a pod without an owner.
	podGCGracePeriod = time.Minute
)

// Teardown deletes the components of an application that is being deleted. The steps depend on the
// propagation policy:
//
//	background  our finalizer keeps the application while its components are deleted in reverse order
//	foreground  the garbage collector deletes all children at once; we wait
//	orphan      the children stay
//
// The result contains the objects that block the deletion, and whether the finalizer was removed (Done).
func (e *Executor) Teardown(ctx context.Context, app Application) (*Scope, rollout.Teardown) {
	s := NewScope(app, e.OwnerOf(app))
	var teardown rollout.Teardown
	orphaned := slices.Contains(app.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if orphaned {
		teardown.Done = true
	} else {
		teardown = e.planTeardown(ctx, s)
	}
	if teardown.Done && !orphaned && !e.finalizeData(ctx, s) {
		teardown = rollout.Teardown{Terminating: []rollout.PendingRemoval{{Message: "Waiting for volumes and credentials to be deleted"}}}
		s.RequeueAfter = dataDeletionPollInterval
	}
	if teardown.Done {
		s.ObjectErr = e.ensureFinalizer(ctx, app, false)
		return s, teardown
	}
	notCached := e.Writer.NotYetCached(s.Owner)
	for _, d := range teardown.Delete {
		if slices.Contains(notCached, d.Child) {
			// The next reconcile could miss the child, and delete its dependencies before its pods
			// have terminated.
			s.ChildErrs[d.Child] = fmt.Errorf("%s %s is not in the cache yet: %w", d.Child.Kind.Kind, d.Child.Name, apply.ErrStale)
			continue
		}
		if _, err := e.Writer.Remove(ctx, s.Owner, d.Child, s.Child(d.Child)); err != nil {
			s.ChildErrs[d.Child] = err
		}
	}
	return s, teardown
}

// planTeardown plans the next deletions. Nothing is deleted while pods without a workload are
// terminating.
func (e *Executor) planTeardown(ctx context.Context, s *Scope) rollout.Teardown {
	children, err := e.listChildren(ctx, s.Owner)
	if err != nil {
		s.ObserveErr = err
		return rollout.Teardown{}
	}
	s.Children = children
	pod, err := e.findPodWithoutWorkload(ctx, s.Owner)
	switch {
	case err != nil:
		s.ObserveErr = err
		return rollout.Teardown{}
	case pod == nil:
		teardown := rollout.PlanTeardown(s.Owner, s.Children)
		s.ObserveErr = e.namePods(ctx, s.Owner, teardown.Terminating)
		return teardown
	}
	message := fmt.Sprintf("Waiting for Pod %s to terminate", klog.KObj(pod))
	if pod.DeletionTimestamp == nil { // if the pod still exists after that time, it has another owner
		s.RequeueAfter = podGCGracePeriod
	} else {
		message = health.TerminatingMessage(pod)
	}
	return rollout.Teardown{Terminating: []rollout.PendingRemoval{{Message: message}}}
}

// namePods adds the name and the deadline of the pod that may block a deletion for the longest time. Other pods terminate
// soon, and naming one after the other would write the status for each of them.
func (e *Executor) namePods(ctx context.Context, owner desired.Owner, pending []rollout.PendingRemoval) error {
	for i, removal := range pending {
		if removal.Workload == "" {
			continue
		}
		pods, err := ListPods(ctx, e.Cache, owner.Namespace, removal.Workload)
		if err != nil {
			return err
		}
		if last := health.LastTerminating(pods); last != nil && health.HasLongGracePeriod(last) {
			pending[i].Message = health.TerminatingMessage(last)
		}
	}
	return nil
}

// findPodWithoutWorkload returns the first terminating or recent pod, by name, whose workload is
// gone. In a foreground deletion the garbage collector keeps a Deployment until its pods have
// terminated, except for pods that it has not detected yet: it deletes these pods after the
// Deployment. Their dependencies are no longer known.
func (e *Executor) findPodWithoutWorkload(ctx context.Context, owner desired.Owner) (*corev1.Pod, error) {
	var pods corev1.PodList
	err := e.Cache.List(ctx, &pods, client.InNamespace(owner.Namespace), client.MatchingLabels{appsapi.LabelInstance: owner.Name})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	var first *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Labels[owner.Keys.Workload] == "" {
			continue // it belongs to another operator
		}
		mayTerminate := pod.DeletionTimestamp != nil || e.Clock.Since(pod.CreationTimestamp.Time) < podGCGracePeriod
		if !mayTerminate || first != nil && first.Name <= pod.Name {
			continue
		}
		exists, err := e.workloadExists(ctx, pod)
		if err != nil {
			return nil, err
		}
		if !exists {
			first = pod
		}
	}
	return first, nil
}

// workloadExists reports whether the workload of a pod exists, regardless of its owner.
func (e *Executor) workloadExists(ctx context.Context, pod *corev1.Pod) (bool, error) {
	for _, kind := range e.ChildKinds.Required {
		list := kind.NewList()
		err := e.Cache.List(ctx, list, client.InNamespace(pod.Namespace), client.MatchingLabels{e.Kind.Keys.Workload: pod.Labels[e.Kind.Keys.Workload]})
		if err != nil {
			return false, fmt.Errorf("list %ss of pod %s: %w", kind.GVK.Kind, klog.KObj(pod), err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// ensureFinalizer adds or removes our finalizer.
func (e *Executor) ensureFinalizer(ctx context.Context, app Application, present bool) error {
	before := app.GetFinalizers()
	finalizer := e.Kind.Keys.Finalizer
	if slices.Contains(before, finalizer) == present {
		return nil
	}
	after := append(slices.Clone(before), finalizer)
	if !present {
		after = slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
	}
	patched := e.Kind.New()
	patched.SetNamespace(app.GetNamespace())
	patched.SetName(app.GetName())
	err := e.Writer.SetFinalizers(ctx, e.OwnerOf(app), before, after, patched)
	if apierrors.IsNotFound(err) && !present {
		return nil // the application is gone, as intended
	}
	if err != nil {
		return fmt.Errorf("change finalizers of %s: %w", e.kindAndName(app), err)
	}
	e.OwnWrites.Record(patched)
	return nil
}
