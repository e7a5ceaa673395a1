package execute

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// reconcileUnusedData labels the data of removed components as retained, or deletes it.
func (e *Executor) reconcileUnusedData(ctx context.Context, s *Scope) {
	for _, l := range s.Plan.Retain {
		// A component with a data conflict may still use the data.
		if !slices.ContainsFunc(s.Components, func(c desired.Component) bool { return c.WorkloadID == l.WorkloadID() }) {
			if _, err := e.deleteOrphans(ctx, s, l.RetainedObject); err != nil {
				s.ChildErrs[l.ID] = err
				continue
			}
		}
		if err := e.Writer.LabelRetained(ctx, s.Owner, l.RetainedObject, l.DesiredLabels); err != nil {
			s.ChildErrs[l.ID] = err
		}
	}
	s.Changes = append(s.Changes, newlyRetained(s.Plan.Retain, s.ChildErrs, s.UnusedRetained)...)
	for _, k := range s.Plan.Purge {
		if err := e.verifyGeneration(ctx, s.App); err != nil {
			s.ChildErrs[k.ID] = err
			return
		}
		_, err := e.deleteOrphans(ctx, s, k)
		purged := false
		if err == nil {
			purged, err = e.purgeIfUnused(ctx, s, k)
		}
		switch {
		case err != nil:
			s.ChildErrs[k.ID] = err
		case purged:
			s.addChange(k.Component(), k.ID, Removed)
		}
	}
}

// newlyRetained returns the retained data of each component whose last claim or Secret was just
// labeled. One event names all data of a component, because a second event would be aggregated into
// the first without naming its objects.
func newlyRetained(labeled []rollout.LabelUpdate, errs map[desired.ID]error, retained []desired.RetainedObject) []Change {
	touched, incomplete := map[string]bool{}, map[string]bool{}
	for _, l := range labeled {
		touched[l.Component()] = true
		if errs[l.ID] != nil {
			incomplete[l.Component()] = true
		}
	}
	var out []Change
	for _, k := range retained {
		if touched[k.Component()] && !incomplete[k.Component()] {
			out = append(out, Change{Component: k.Component(), Child: k.ID, Action: Retained})
		}
	}
	return out
}

// purgeIfUnused deletes a claim or Secret unless a StatefulSet or pod uses it. When that
// StatefulSet or pod is deleted, the application is requeued.
func (e *Executor) purgeIfUnused(ctx context.Context, s *Scope, k desired.RetainedObject) (bool, error) {
	if k.GetDeletionTimestamp() != nil {
		return false, nil
	}
	user, err := e.dataReader().FindUser(ctx, s.Owner, k)
	if err != nil || user != "" {
		return false, err
	}
	return true, e.Writer.PurgeRetained(ctx, s.Owner, k)
}

// deleteOrphans deletes the pods that use a claim, and their binding Secret, if their StatefulSet
// was deleted with orphan propagation.
func (e *Executor) deleteOrphans(ctx context.Context, s *Scope, k desired.RetainedObject) (deleted bool, err error) {
	orphans, err := e.dataReader().Orphans(ctx, s.Owner, k)
	if err != nil {
		return false, err
	}
	for _, orphan := range orphans {
		if err := e.verifyGeneration(ctx, s.App); err != nil {
			return false, err
		}
		if err := e.Writer.DeleteOrphan(ctx, orphan); err != nil {
			return false, err
		}
	}
	return len(orphans) > 0, nil
}

// finalizeData labels or deletes the data of an application that is being deleted, after the workloads
// are gone. It reports whether all data is finalized.
func (e *Executor) finalizeData(ctx context.Context, s *Scope) (finished bool) {
	if !e.ChildKinds.Data {
		return true
	}
	specs, err := e.mapSpec(ctx, s.App)
	if err != nil {
		s.ObserveErr = err
		return false
	}
	retained, err := e.dataReader().List(ctx, s.Owner, specs)
	if err == nil && !rollout.HasData(s.Owner, desired.Build(s.Owner, specs, desired.ClusterState{Retained: retained}), retained) {
		return true
	}
	if err == nil {
		retained, err = e.dataReader().ListLive(ctx, s.Owner, specs)
	}
	if err != nil {
		s.ObserveErr = err
		return false
	}
	finished = true
	components := desired.Build(s.Owner, specs, desired.ClusterState{Retained: retained})
	for _, f := range rollout.PlanDataFinalization(s.Owner, components, retained, e.Kind.deletesData(s.App)) {
		done, err := e.finalizeObject(ctx, s, f)
		if err != nil {
			s.ChildErrs[f.ID] = err
		}
		finished = finished && done && err == nil
	}
	return finished
}

// finalizeObject labels or deletes one claim or Secret of an application that is being deleted.
func (e *Executor) finalizeObject(ctx context.Context, s *Scope, f rollout.DataFinalization) (done bool, err error) {
	if deleted, err := e.deleteOrphans(ctx, s, f.RetainedObject); err != nil || deleted {
		return false, err // the data is finalized once nothing uses it
	}
	if !f.Purge {
		return true, e.Writer.LabelRetained(ctx, s.Owner, f.RetainedObject, f.DesiredLabels)
	}
	user, err := e.dataReader().FindUser(ctx, s.Owner, f.RetainedObject)
	if err != nil {
		return false, err
	}
	if user != "" {
		return true, nil // another workload uses the data
	}
	if err := e.verifyGeneration(ctx, s.App); err != nil {
		return false, err
	}
	if f.GetDeletionTimestamp() == nil {
		err = e.Writer.PurgeRetained(ctx, s.Owner, f.RetainedObject)
	}
	return false, err
}
