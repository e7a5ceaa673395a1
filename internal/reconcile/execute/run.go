package execute

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Run observes an application, plans and executes the plan. All errors are in the scope.
func (e *Executor) Run(ctx context.Context, app Application) *Scope {
	s := NewScope(app, e.OwnerOf(app))
	if s.ObserveErr = e.observe(ctx, s); s.ObserveErr == nil && s.SpecErr == nil {
		e.plan(ctx, s)
	}
	if s.ObserveErr == nil && s.SpecErr == nil && len(s.Plan.Steps) > 0 {
		e.execute(ctx, s)
	}
	return s
}

func (e *Executor) plan(ctx context.Context, s *Scope) {
	s.Plan, s.SpecErr = rollout.NewPlan(rollout.Input{
		Owner: s.Owner, Components: s.Components, Observed: s.Children, ProtectedJobs: s.retainedJobs,
		Retained: s.Retained, DeleteData: e.Kind.deletesData(s.App), DatabaseHealth: s.DatabaseHealth, StartedImages: s.StartedImages,
	})
	logPlan(log.FromContext(ctx), s.Plan)
}

// execute carries out the plan. Children are deleted only after every other write succeeded.
func (e *Executor) execute(ctx context.Context, s *Scope) {
	if s.ObjectErr = e.prepare(ctx, s); s.ObjectErr != nil {
		return
	}
	e.prepareData(ctx, s)
	e.applySteps(ctx, s)
	e.changeVolumes(ctx, s)
	if len(s.ChildErrs) > 0 {
		return
	}
	for _, p := range s.Plan.Prune {
		e.prune(ctx, s, p.Component, p.Child)
	}
	e.reconcileUnusedData(ctx, s)
	s.ObjectErr = e.pruneRevisions(ctx, s)
}

// prepare does everything that must precede the first write of a child.
func (e *Executor) prepare(ctx context.Context, s *Scope) error {
	if err := e.verifyAgainstAPIServer(ctx, s); err != nil {
		return err
	}
	// The finalizer must exist before the first child, because the application can be deleted at any time.
	ordered := rollout.RequiresOrder(s.Owner.Keys, s.Components, s.Children) || rollout.HasData(s.Owner, s.Components, s.Retained)
	if err := e.ensureFinalizer(ctx, s.App, ordered); err != nil {
		return err
	}
	err := e.saveRevision(ctx, s)
	if err != nil && !IsBlockedByOthers(err) {
		return err
	}
	if err != nil {
		// Another owner uses the name of the revision. Recorded as the error of a child, the
		// conflict prevents all pruning, so that completed Jobs are kept.
		s.ChildErrs[desired.ID{Kind: desired.KindRevision, Name: desired.RevisionName(s.Owner, s.Spec.Hash)}] = err
	}
	for _, revision := range s.History.Prune {
		s.prunedRevisions[revision.Name] = true
	}
	return nil
}
