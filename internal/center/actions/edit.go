package actions

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/edit"
	"github.com/holdfast-dev/holdfast/internal/redact"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// EditOptions of what changes an application.
type EditOptions struct {
	// Component of an application; empty means the whole.
	Component string
	// DryRun lets the API server check everything and store nothing.
	DryRun bool
}

// EditResult is what became of an application.
type EditResult struct {
	// Message says it in a sentence.
	Message string `json:"message"`
	// Changed says whether anything is, or with DryRun would be, different.
	Changed bool `json:"changed"`
	DryRun  bool `json:"dryRun,omitempty"`
	// Changes of the spec; values that may be secret are hidden.
	Changes []revisions.SpecChange `json:"changes"`
}

// Restart replaces the pods of an application, or of a component, as an update does.
func (c *Caller) Restart(ctx context.Context, ref Ref, o EditOptions) (EditResult, error) {
	return c.edit(ctx, opRestart, ref, o, func(app application.Application, spec map[string]any) (string, bool, error) {
		r, err := edit.Restart(app, spec, o.Component, c.clock.Now())
		message := r.String()
		if len(r.Suspended) > 0 {
			message += " Suspended, so only after it is resumed: " + strings.Join(r.Suspended, ", ") + "."
		}
		return message, true, err
	})
}

// Suspend takes the operator's hands off an application, or off a component.
func (c *Caller) Suspend(ctx context.Context, ref Ref, o EditOptions) (EditResult, error) {
	return c.suspend(ctx, opSuspend, ref, o, true)
}

// Resume lets the operator go on.
func (c *Caller) Resume(ctx context.Context, ref Ref, o EditOptions) (EditResult, error) {
	return c.suspend(ctx, opResume, ref, o, false)
}

func (c *Caller) suspend(ctx context.Context, op operation, ref Ref, o EditOptions, suspend bool) (EditResult, error) {
	return c.edit(ctx, op, ref, o, func(app application.Application, spec map[string]any) (string, bool, error) {
		s, err := edit.Suspend(app, spec, o.Component, suspend)
		message := s.Message(func(component string) string {
			if component == "" {
				return "resume " + application.Title(app)
			}
			return "resume its component " + component
		})
		return message, s.Changed, err
	})
}

// Scale sets how many pods run: of an AppService, or of a component of another application.
func (c *Caller) Scale(ctx context.Context, ref Ref, replicas int32, o EditOptions) (EditResult, error) {
	return c.edit(ctx, opScale, ref, o, func(app application.Application, spec map[string]any) (string, bool, error) {
		s, err := edit.Scale(app, spec, o.Component, replicas)
		message := s.String()
		if s.Changed() && s.Suspended {
			message += " It is suspended, so only after it is resumed."
		}
		return message, s.Changed(), err
	})
}

// edit lets a decision change the spec of an application, and writes it.
func (c *Caller) edit(ctx context.Context, op operation, ref Ref, o EditOptions, mutate func(application.Application, map[string]any) (string, bool, error)) (EditResult, error) {
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

// specChanges are what is different in a spec, as anybody may see it.
func specChanges(app application.Application, before, after map[string]any) []revisions.SpecChange {
	all := revisions.Diff(before, after)
	if _, ok := app.(*appsapi.AppService); ok { // its fields are no components
		for i := range all {
			all[i].Path = strings.Trim(all[i].Component+"."+all[i].Path, ".")
			all[i].Component = ""
		}
	}
	return redactChanges(all)
}

// redactChanges hides what may be secret in changes.
func redactChanges(changes []revisions.SpecChange) []revisions.SpecChange {
	out := make([]revisions.SpecChange, len(changes))
	for i, c := range changes {
		c.Before, c.After = redact.ValueAt(c.Path, c.Before), redact.ValueAt(c.Path, c.After)
		out[i] = c
	}
	return out
}
