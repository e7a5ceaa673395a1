package engine

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
)

// defaultHistory is how many specs are remembered.
const defaultHistory = 10

// remember stores the spec that is about to be applied, before anything of it is: what a
// job has done must be known as its doing.
func (r *reconciler[T]) remember(ctx context.Context, owner desired.Owner, o *observed) error {
	h := &o.history
	for _, before := range o.strays {
		after, err := r.applier.ReclaimRevision(ctx, owner, before)
		if err != nil {
			return err
		}
		h.Replace(before, after)
	}
	if r.kind.History == nil || h.Current != nil && h.Current.Revision == h.Number {
		return nil
	}
	if before := h.Current; before != nil {
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
	var jobs []string
	for _, c := range o.components {
		if c.JobSpec != "" {
			jobs = append(jobs, c.JobSpec)
		}
	}
	slices.Sort(jobs)
	h.Current, err = r.applier.CreateRevision(ctx, owner, desired.Revision(owner, o.spec.Hash, data, h.Number, slices.Compact(jobs)))
	return err
}

// forget deletes the specs beyond the limit.
func (r *reconciler[T]) forget(ctx context.Context, owner desired.Owner, o *observed) error {
	for _, revision := range o.history.Forget {
		if !metav1.IsControlledBy(revision, &metav1.ObjectMeta{UID: owner.UID}) || revision.DeletionTimestamp != nil {
			continue
		}
		if _, err := r.applier.Remove(ctx, owner, desired.ID{Kind: desired.KindRevision, Name: revision.Name}, revision); err != nil {
			return err
		}
	}
	return nil
}

// wasHealthy notes that everything is ready with the current spec.
func (r *reconciler[T]) wasHealthy(ctx context.Context, owner desired.Owner, o *observed) error {
	h := &o.history
	if h.Current == nil || h.Healthy == h.Current {
		return nil
	}
	if history.IsHealthy(h.Current) {
		h.Healthy = h.Current
		return nil
	}
	marked, err := r.applier.MarkHealthy(ctx, owner, h.Current)
	if err != nil {
		return fmt.Errorf("note that revision %d is healthy: %w", h.Current.Revision, err)
	}
	h.Current, h.Healthy = marked, marked
	return nil
}
