package execute

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
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// loadRevisions reads the stored specs of an application.
func (e *Executor) loadRevisions(ctx context.Context, s *Scope) error {
	s.retainedJobs = map[string]bool{}
	if e.Kind.History == nil {
		return nil
	}
	spec, limit := e.Kind.History(s.App)
	var err error
	if s.Spec, err = revision.Encode(spec); err != nil {
		return err
	}
	current := desired.RevisionName(s.Owner, s.Spec.Hash)
	names, err := e.childNames(ctx, s.Owner, childkind.Revision)
	if err != nil {
		return err
	}
	found := rollout.Observed{}
	for _, name := range append(names, current) {
		if err := e.observeChild(ctx, s.Owner, desired.ID{Kind: desired.KindRevision, Name: name}, found); err != nil {
			return err
		}
	}
	var revisions []*appsv1.ControllerRevision
	for _, r := range found {
		if ownership.BelongsTo(s.Owner, r) {
			s.recordLostOwnership(r)
			revisions = append(revisions, r.(*appsv1.ControllerRevision))
		}
	}
	s.History = revision.NewPlan(s.Owner.Keys, current, revisions, int(limit))
	s.retainedJobs = rollout.ProtectedJobSpecs(s.Owner.Keys, revisions, s.History.Prune)
	for id, job := range s.Children {
		if id.Kind == desired.KindJob && s.retainedJobs[job.GetAnnotations()[s.Owner.Keys.JobSpec]] && !s.HasWorkload(id) && ownership.BelongsTo(s.Owner, job) {
			s.recordLostOwnership(job)
		}
	}
	return nil
}

// recordLostOwnership records an object if saveRevision must restore its owner metadata. Objects
// that are being deleted are skipped.
func (s *Scope) recordLostOwnership(obj rollout.Object) {
	if !ownership.HasOwnerMetadata(s.Owner, obj.(client.Object)) && obj.GetDeletionTimestamp() == nil {
		s.lostOwnership = append(s.lostOwnership, obj.(client.Object))
	}
}

// saveRevision stores the spec before any part of it is applied, so that every completed job
// belongs to a stored spec.
func (e *Executor) saveRevision(ctx context.Context, s *Scope) error {
	h := &s.History
	for _, before := range s.lostOwnership {
		after, err := e.Writer.RestoreOwnership(ctx, s.Owner, before)
		if err != nil {
			return err
		}
		if r, ok := before.(*appsv1.ControllerRevision); ok {
			h.Replace(r, after.(*appsv1.ControllerRevision))
		}
	}
	if e.Kind.History == nil {
		return nil
	}
	jobs := desired.JobSpecHashes(s.Components)
	if before := h.Current; before != nil && !slices.Equal(desired.RevisionJobHashes(s.Owner.Keys, before), jobs) {
		after, err := e.Writer.SetRevisionJobs(ctx, s.Owner, before, jobs)
		if err != nil {
			return err
		}
		h.Replace(before, after)
	}
	if h.Current != nil && h.Current.Revision == h.Number {
		return nil
	}
	if before := h.Current; before != nil {
		// Either the spec was reverted, or the cache lacks a later revision.
		if err := e.verifyGeneration(ctx, s.App); err != nil {
			return err
		}
		after, err := e.Writer.RenumberRevision(ctx, s.Owner, before, h.Number)
		if err != nil {
			return err
		}
		h.Replace(before, after)
		return nil
	}
	data, err := s.Spec.Data()
	if err != nil {
		return err
	}
	h.Current, err = e.Writer.CreateRevision(ctx, s.Owner, desired.NewRevision(s.Owner, s.Spec.Hash, data, h.Number, jobs))
	return err
}

// protectCompletedJobs checks in the API server, before a Job is deleted, whether a revision that
// is missing in the cache still needs the Job: without the Job, a rollback to the revision would
// run the job again. If a revision lost the label that the cache selects, the label is restored,
// and the reconcile is retried until the cache shows the revision.
func (e *Executor) protectCompletedJobs(ctx context.Context, s *Scope, id desired.ID) error {
	if id.Kind != desired.KindJob || e.Kind.History == nil {
		return nil
	}
	var all appsv1.ControllerRevisionList
	if err := e.APIReader.List(ctx, &all, client.InNamespace(s.Owner.Namespace)); err != nil {
		return fmt.Errorf("list ControllerRevisions before deleting Job %s: %w", id.Name, err)
	}
	// Only a finished Job is protected. If the Job has not finished, a rollback may run it again.
	job, _ := s.Children[id].(*batchv1.Job)
	finished := job != nil && rollout.JobFinished(job)
	var staleErr error
	for i := range all.Items {
		r := &all.Items[i]
		if !ownership.BelongsTo(s.Owner, r) || r.DeletionTimestamp != nil || s.prunedRevisions[r.Name] {
			continue
		}
		unlabeled := r.Labels[appsapi.LabelManagedBy] != appsapi.ManagedBy
		if unlabeled {
			if _, err := e.Writer.RestoreOwnership(ctx, s.Owner, r); err != nil {
				return err
			}
		}
		if unlabeled || finished && slices.Contains(desired.RevisionJobHashes(s.Owner.Keys, r), job.Annotations[s.Owner.Keys.JobSpec]) {
			staleErr = fmt.Errorf("ControllerRevision %s is not in the cache: %w", r.Name, apply.ErrStale)
		}
	}
	return staleErr
}

// pruneRevisions deletes the revisions beyond the limit.
func (e *Executor) pruneRevisions(ctx context.Context, s *Scope) error {
	for _, r := range s.History.Prune {
		if !metav1.IsControlledBy(r, &metav1.ObjectMeta{UID: s.Owner.UID}) || r.DeletionTimestamp != nil {
			continue
		}
		if _, err := e.Writer.Remove(ctx, s.Owner, desired.ID{Kind: desired.KindRevision, Name: r.Name}, r); err != nil {
			return err
		}
	}
	return nil
}

// MarkRevisionHealthy records that every component is ready with the current spec.
func (e *Executor) MarkRevisionHealthy(ctx context.Context, s *Scope) error {
	h := &s.History
	if h.Current == nil || h.Healthy == h.Current {
		return nil
	}
	if revision.IsHealthy(s.Owner.Keys, h.Current) {
		h.Healthy = h.Current
		return nil
	}
	marked, err := e.Writer.MarkRevisionHealthy(ctx, s.Owner, h.Current)
	if err != nil {
		return fmt.Errorf("mark revision %d as healthy: %w", h.Current.Revision, err)
	}
	h.Current, h.Healthy = marked, marked
	return nil
}
