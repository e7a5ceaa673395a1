package actions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// RollbackOptions say where to go back to.
type RollbackOptions struct {
	// Revision is its number; 0 is the newest healthy one with which something is different.
	Revision int64
	// ExpectedGeneration is the generation that somebody has looked at and decided on, from a Rollback with
	// DryRun; with another one nothing is written. 0 means any.
	ExpectedGeneration int64
	DryRun             bool
}

// RollbackResult is what going back means, or has meant.
type RollbackResult struct {
	EditResult
	// Revision is the one that was chosen.
	Revision int64     `json:"revision"`
	Healthy  bool      `json:"healthy"`
	Created  time.Time `json:"created"`
	// Generation of the application that this was decided on.
	Generation int64 `json:"generation"`
	// Retained are the differences to the revision: what it had, and what is kept instead.
	Retained []revisions.SpecChange `json:"stays"`
	// Notes say what becomes of data.
	Notes []string `json:"notes"`
	// UncheckedReason says why the API server has not checked a dry run.
	UncheckedReason string `json:"unchecked,omitempty"`
}

// Rollback gives an application a spec again that it had before.
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
		return RollbackResult{}, &Error{Conflict, fmt.Sprintf("%s was changed since you looked, so nothing was written; look at what going back means now, and decide again", ref)}
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
		out.Message = fmt.Sprintf("%s has the spec of revision %d already, apart from what stays as it is; nothing to do.", ref, plan.Target.Number)
		return out, nil
	}
	raw.Object["spec"] = plan.Spec
	err = toError(opRollback, ref, c.writer(o.DryRun).Write(ctx, application.Title(app), raw))
	var apiErr *Error
	switch {
	case o.DryRun && errors.As(err, &apiErr) && apiErr.Reason == Forbidden:
		out.UncheckedReason = apiErr.Message
	case err != nil:
		return RollbackResult{}, err
	}
	out.Message = fmt.Sprintf("%s has the spec of revision %d again.", ref, plan.Target.Number)
	if o.DryRun {
		out.Message = fmt.Sprintf("%s would have the spec of revision %d again; nothing was changed.", ref, plan.Target.Number)
	}
	return out, nil
}
