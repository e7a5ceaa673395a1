package actions

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// EditOptions configures a change of an application.
type EditOptions struct {
	// Component limits the change to one component. Empty means the whole application.
	Component string
	// DryRun sends a server-side dry run: the API server validates the change and does not store it.
	DryRun bool
}

// EditResult is the result of a change of an application.
type EditResult struct {
	// Message describes the result in one sentence.
	Message string `json:"message"`
	// Changed is true if the spec changed or, for a dry run, would change.
	Changed bool `json:"changed"`
	DryRun  bool `json:"dryRun,omitempty"`
	// Changes are the changes of the spec. Values that may be secret are redacted.
	Changes []revision.SpecChange `json:"changes"`
}

// Restart replaces the pods of an application or of one component with a rolling update.
func (c *Caller) Restart(ctx context.Context, ref Ref, o EditOptions) (EditResult, error) {
	return c.edit(ctx, opRestart, ref, o, func(app appkind.Application, spec map[string]any) (string, bool, error) {
		r, err := edit.Restart(app, spec, o.Component, c.clock.Now())
		message := r.String()
		if len(r.Suspended) > 0 {
			message += " Suspended components restart after they are resumed: " + strings.Join(r.Suspended, ", ") + "."
		}
		return message, true, err
	})
}

// Suspend pauses reconciliation of an application or of one component.
func (c *Caller) Suspend(ctx context.Context, ref Ref, o EditOptions) (EditResult, error) {
	return c.suspend(ctx, opSuspend, ref, o, true)
}

// Resume resumes reconciliation of an application or of one component.
func (c *Caller) Resume(ctx context.Context, ref Ref, o EditOptions) (EditResult, error) {
	return c.suspend(ctx, opResume, ref, o, false)
}

func (c *Caller) suspend(ctx context.Context, op operation, ref Ref, o EditOptions, suspend bool) (EditResult, error) {
	return c.edit(ctx, op, ref, o, func(app appkind.Application, spec map[string]any) (string, bool, error) {
		s, err := edit.Suspend(app, spec, o.Component, suspend)
		message := s.Message(func(component string) string {
			if component == "" {
				return "run action resume on " + appkind.Title(app)
			}
			return "run action resume on component " + component
		})
		return message, s.Changed, err
	})
}

// Scale sets the replicas of an AppService or of a component of another application.
func (c *Caller) Scale(ctx context.Context, ref Ref, replicas int32, o EditOptions) (EditResult, error) {
	return c.edit(ctx, opScale, ref, o, func(app appkind.Application, spec map[string]any) (string, bool, error) {
		s, err := edit.Scale(app, spec, o.Component, replicas)
		message := s.String()
		if s.Changed() && s.Suspended {
			message += " It is suspended and scales after it is resumed."
		}
		return message, s.Changed(), err
	})
}

// edit applies mutate to the spec of an application and writes the spec.
func (c *Caller) edit(ctx context.Context, op operation, ref Ref, o EditOptions, mutate func(appkind.Application, map[string]any) (string, bool, error)) (EditResult, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	app, err := c.application(ctx, ref)
	if err != nil {
		return EditResult{}, err
	}
	out := EditResult{DryRun: o.DryRun}
	_, err = c.writer(o.DryRun).Edit(ctx, app, func(spec map[string]any) (changed bool, err error) {
		before := runtime.DeepCopyJSON(spec)
		out.Message, changed, err = mutate(app, spec)
		out.Changes = specChanges(app, before, spec)
		return changed, err
	})
	if err != nil {
		return EditResult{}, toError(op, ref, err)
	}
	out.Changed = len(out.Changes) > 0
	return out, nil
}

func (c *Caller) writer(dryRun bool) edit.Writer {
	return edit.Writer{Client: c.client, FieldManager: FieldManager, DryRun: dryRun}
}

// specChanges returns the redacted changes of a spec.
func specChanges(app appkind.Application, before, after map[string]any) []revision.SpecChange {
	all := revision.Diff(before, after)
	if layout := appkind.Of(app).Layout; layout != nil && layout.SingleComponent { // revision.Diff takes its top-level fields for components
		for i := range all {
			if c := &all[i]; c.Component != "" {
				c.Component, c.Path = "", append(objdiff.Path{{Name: c.Component}}, c.Path...)
			}
		}
	}
	return redactChanges(all)
}

// redactChanges hides values that may be secret.
func redactChanges(changes []revision.SpecChange) []revision.SpecChange {
	out := make([]revision.SpecChange, len(changes))
	for i, c := range changes {
		c.Before, c.After = redact.ValueAt(c.Path, c.Before), redact.ValueAt(c.Path, c.After)
		out[i] = c
	}
	return out
}
