package act

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
	// Seen is the generation that somebody has looked at and decided on, from a Rollback with
	// DryRun; with another one nothing is written. 0 means any.
	Seen   int64
	DryRun bool
}

// Rollback is what going back means, or has meant.
type Rollback struct {
	Outcome
	// Revision is the one that was chosen.
	Revision int64     `json:"revision"`
	Healthy  bool      `json:"healthy"`
	Created  time.Time `json:"created"`
	// Generation of the application that this was decided on.
	Generation int64 `json:"generation"`
	// Stays are the differences to the revision: what it had, and what is kept instead.
	Stays []revisions.Change `json:"stays"`
	// Notes say what becomes of data.
	Notes []string `json:"notes"`
	// Unchecked says why the API server has not checked a dry run.
	Unchecked string `json:"unchecked,omitempty"`
}

// Rollback gives an application a spec again that it had before.
func (c *Caller) Rollback(ctx context.Context, ref Ref, o RollbackOptions) (Rollback, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	app, err := c.application(ctx, ref)
	if err != nil {
		return Rollback{}, err
	}
	past, raw, err := edit.ReadPast(ctx, c.client, app)
	if err != nil {
		return Rollback{}, failed(readsRevisions, ref, err)
	}
	if o.Seen != 0 && o.Seen != raw.GetGeneration() {
		return Rollback{}, &Error{Conflict, fmt.Sprintf("%s was changed since you looked, so nothing was written; look at what going back means now, and decide again", ref)}
	}
	d, err := past.Choose(o.Revision)
	if err != nil {
		return Rollback{}, failed(rollsBack, ref, err)
	}
	out := Rollback{
		Outcome:  Outcome{DryRun: o.DryRun, Changed: len(d.Changes) > 0, Changes: shown(d.Changes)},
		Revision: d.To.Number, Healthy: d.To.Healthy, Created: d.To.Created.UTC(), Generation: raw.GetGeneration(),
		Stays: shown(d.Kept()), Notes: append([]string{}, d.Notes...),
	}
	if !out.Changed {
		out.Message = fmt.Sprintf("%s has the spec of revision %d already, apart from what stays as it is; nothing to do.", ref, d.To.Number)
		return out, nil
	}
	raw.Object["spec"] = d.Spec
	err = failed(rollsBack, ref, c.writer(o.DryRun).Write(ctx, application.Title(app), raw))
	var why *Error
	switch {
	case o.DryRun && errors.As(err, &why) && why.Reason == Forbidden:
		out.Unchecked = why.Message
	case err != nil:
		return Rollback{}, err
	}
	out.Message = fmt.Sprintf("%s has the spec of revision %d again.", ref, d.To.Number)
	if o.DryRun {
		out.Message = fmt.Sprintf("%s would have the spec of revision %d again; nothing was changed.", ref, d.To.Number)
	}
	return out, nil
}
