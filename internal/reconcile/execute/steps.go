package execute

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// applySteps deletes children that would change fields that the plan sets, applies all children in
// parallel, and deletes children that their components no longer declare.
func (e *Executor) applySteps(ctx context.Context, s *Scope) {
	type write struct {
		step   int
		child  rollout.ChildApply
		result apply.Result
		err    error
	}
	var writes []write
	for i, step := range s.Plan.Steps {
		for _, id := range step.RemoveFirst {
			e.prune(ctx, s, step.Component, id)
		}
		for _, child := range step.Apply {
			writes = append(writes, write{step: i, child: child})
		}
	}
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	for i := range writes {
		w := &writes[i]
		current := s.Child(w.child.ID)
		group.Go(func() error {
			w.result, w.err = e.applyChild(ctx, s.Owner, w.child, current)
			return nil
		})
	}
	_ = group.Wait() // every write has its own error
	failedSteps := map[int]bool{}
	for _, w := range writes {
		s.RecordApply(s.Plan.Steps[w.step].Component, w.child.ID, w.result, w.err)
		failedSteps[w.step] = failedSteps[w.step] || w.err != nil
	}
	for i, step := range s.Plan.Steps {
		for _, id := range step.Remove {
			if !failedSteps[i] {
				e.prune(ctx, s, step.Component, id)
			}
		}
	}
}

func (e *Executor) applyChild(ctx context.Context, owner desired.Owner, child rollout.ChildApply, current client.Object) (apply.Result, error) {
	if err := e.OptionalKinds.EnsureWritable(ctx, owner.Namespace, child.ID); err != nil {
		return apply.Result{}, err
	}
	result, err := e.Writer.Apply(ctx, owner, child.Child, current, child.HoldPodTemplate)
	return result, e.OptionalKinds.RefineError(ctx, owner.Namespace, child.ID, err)
}

// prune deletes a child that the spec no longer declares, after verifying in the API server that
// the spec has not changed.
func (e *Executor) prune(ctx context.Context, s *Scope, component string, id desired.ID) {
	if err := e.verifyGeneration(ctx, s.App); err != nil {
		s.ChildErrs[id] = fmt.Errorf("before deleting %s %s: %w", id.Kind.Kind, id.Name, err)
		return
	}
	err := e.protectCompletedJobs(ctx, s, id)
	removed := false
	if err == nil {
		removed, err = e.Writer.Remove(ctx, s.Owner, id, s.Child(id))
	}
	if err != nil {
		s.ChildErrs[id] = err
		return
	}
	if removed {
		s.addChange(component, id, Removed)
		delete(s.Children, id)
	}
}
