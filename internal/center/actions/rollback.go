package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// RollbackOptions configures a rollback.
type RollbackOptions struct {
	// Revision is the target revision; 0 means the newest healthy revision that differs.
	Revision int64
	// ExpectedGeneration is the generation returned by a dry run. A rollback of any other generation is
	// rejected. 0 means any generation.
	ExpectedGeneration int64
	DryRun             bool
}

// RollbackResult is the result of a rollback or of its dry run.
type RollbackResult struct {
	EditResult
	// Revision is the selected target revision.
	Revision int64     `json:"revision"`
	Healthy  bool      `json:"healthy"`
	Created  time.Time `json:"created"`
	// Generation is the generation of the application for which the rollback was computed.
	Generation int64 `json:"generation"`
	// Retained are the fields that a rollback does not change: their value in the revision and the current value.
	Retained []revision.SpecChange `json:"retained"`
	// Notes describe the effect on data.
	Notes []string `json:"notes"`
	// UncheckedReason is the reason why the API server has not validated a dry run.
	UncheckedReason string `json:"unchecked,omitempty"`
}

// Rollback restores the spec of an earlier revision.
func (c *Caller) Rollback(ctx context.Context, ref Ref, o RollbackOptions) (RollbackResult, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	app, err := c.application(ctx, ref)
	if err != nil {
		return RollbackResult{}, err
	}
	history, raw, err := edit.NewRollbackPlanner(ctx, c.client, app)
	if err != nil {
		return RollbackResult{}, toError(opReadRevisions, ref, err)
	}
	if o.ExpectedGeneration != 0 && o.ExpectedGeneration != raw.GetGeneration() {
		return RollbackResult{}, &Error{Conflict,
			fmt.Sprintf("%s has changed since the preview and nothing was written; preview the rollback again with dryRun", ref)}
	}
	plan, err := history.Plan(o.Revision)
	if err != nil {
		return RollbackResult{}, toError(opRollback, ref, err)
	}
	out := RollbackResult{
		EditResult: EditResult{DryRun: o.DryRun, Changed: len(plan.Changes) > 0, Changes: redactChanges(plan.Changes)},
		Revision:   plan.Target.Number, Healthy: plan.Target.Healthy, Created: plan.Target.Created.UTC(), Generation: raw.GetGeneration(),
		Retained: redactChanges(plan.NotableRetained()), Notes: append([]string{}, plan.Notes...),
	}
	if !out.Changed {
		out.Message = fmt.Sprintf("%s already has the spec of revision %d, except for fields that a rollback does not change; nothing to do.",
			ref, plan.Target.Number)
		return out, nil
	}
	raw.Object["spec"] = plan.Spec
	err = toError(opRollback, ref, c.writer(o.DryRun).Write(ctx, appkind.Title(app), raw))
	var apiErr *Error
	switch {
	case o.DryRun && errors.As(err, &apiErr) && apiErr.Reason == Forbidden:
		out.UncheckedReason = apiErr.Message
	case err != nil:
		return RollbackResult{}, err
	}
	out.Message = fmt.Sprintf("%s was rolled back to revision %d.", ref, plan.Target.Number)
	if o.DryRun {
		out.Message = fmt.Sprintf("%s would be rolled back to revision %d; nothing was changed.", ref, plan.Target.Number)
	}
	return out, nil
}
