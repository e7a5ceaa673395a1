package engine

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// saveRevision stores the spec that is about to be applied, before anything of it is: what a
// job has done must be known as its doing.
func (r *reconciler[T]) saveRevision(ctx context.Context, app T, owner desired.Owner, o *observed) error {
	h := &o.history
	for _, before := range o.toReclaim {
		after, err := r.applier.RestoreOwnership(ctx, owner, before)
		if err != nil {
			return err
		}
		if revision, ok := before.(*appsv1.ControllerRevision); ok {
			h.Replace(revision, after.(*appsv1.ControllerRevision))
		}
	}
	if r.kind.History == nil {
		return nil
	}
	jobs := desired.JobSpecHashes(o.components)
	if before := h.Current; before != nil && !slices.Equal(desired.RevisionJobHashes(before), jobs) {
		after, err := r.applier.SetRevisionJobs(ctx, owner, before, jobs)
		if err != nil {
			return err
		}
		h.Replace(before, after)
	}
	if h.Current != nil && h.Current.Revision == h.Number {
		return nil
	}
	if before := h.Current; before != nil {
		// Either somebody went back to an earlier spec, or we have not heard of a later one.
		if err := r.verifyAppGeneration(ctx, app); err != nil {
			return err
		}
		after, err := r.applier.RenumberRevision(ctx, owner, before, h.Number)
		if err != nil {
			return err
		}
		h.Replace(before, after)
		return nil
	}
	data, err := o.spec.Data()
	if err != nil {
		return err
	}
	h.Current, err = r.applier.CreateRevision(ctx, owner, desired.NewRevision(owner, o.spec.Hash, data, h.Number, jobs))
	return err
}

// protectCompletedJobs asks the API server, before a Job is deleted because no revision that is seen needs
// it, whether there is one: without its Job it would run again. A revision that lost the label
// that our cache selects on is given back, and everything is looked at anew; so it is until
// the cache has it again.
func (r *reconciler[T]) protectCompletedJobs(ctx context.Context, owner desired.Owner, id desired.ID, res *result) error {
	if id.Kind != desired.KindJob || r.kind.History == nil {
		return nil
	}
	var all appsv1.ControllerRevisionList
	if err := r.apiReader.List(ctx, &all, client.InNamespace(owner.Namespace)); err != nil {
		return fmt.Errorf("list ControllerRevisions before deleting Job %s: %w", id.Name, err)
	}
	// One that is at work is ended for another run, and its revision may have it run again.
	job, _ := res.children[id].(*batchv1.Job)
	finished := job != nil && rollout.JobFinished(job)
	var staleErr error
	for i := range all.Items {
		revision := &all.Items[i]
		if !ownership.BelongsTo(owner, revision) || revision.DeletionTimestamp != nil || res.prunedRevisions[revision.Name] {
			continue
		}
		unlabeled := revision.Labels[appsapi.LabelManagedBy] != appsapi.ManagedBy
		if unlabeled {
			if _, err := r.applier.RestoreOwnership(ctx, owner, revision); err != nil {
				return err
			}
		}
		if unlabeled || finished && slices.Contains(desired.RevisionJobHashes(revision), job.Annotations[appsapi.AnnotationJobSpec]) {
			staleErr = fmt.Errorf("ControllerRevision %s was not seen: %w", revision.Name, apply.ErrStale)
		}
	}
	return staleErr
}

// pruneRevisions deletes the specs beyond the limit.
func (r *reconciler[T]) pruneRevisions(ctx context.Context, owner desired.Owner, o *observed) error {
	for _, revision := range o.history.Prune {
		if !metav1.IsControlledBy(revision, &metav1.ObjectMeta{UID: owner.UID}) || revision.DeletionTimestamp != nil {
			continue
		}
		if _, err := r.applier.Remove(ctx, owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name}, revision); err != nil {
			return err
		}
	}
	return nil
}

// markRevisionHealthy notes that everything is ready with the current spec.
func (r *reconciler[T]) markRevisionHealthy(ctx context.Context, owner desired.Owner, o *observed) error {
	h := &o.history
	if h.Current == nil || h.Healthy == h.Current {
		return nil
	}
	if history.IsHealthy(h.Current) {
		h.Healthy = h.Current
		return nil
	}
	marked, err := r.applier.MarkRevisionHealthy(ctx, owner, h.Current)
	if err != nil {
		return fmt.Errorf("note that revision %d is healthy: %w", h.Current.Revision, err)
	}
	h.Current, h.Healthy = marked, marked
	return nil
}
