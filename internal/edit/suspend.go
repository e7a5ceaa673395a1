package edit

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// SuspendResult is the result of [Suspend].
type SuspendResult struct {
	app appkind.Application
	// Component is empty for the application as a whole.
	Component string
	// Suspended is the new value, and Changed reports whether it differs from the old one.
	Suspended, Changed bool
	// AppSuspended is set if the application as a whole is suspended.
	AppSuspended bool
	// SuspendedComponents are the components that are suspended individually.
	SuspendedComponents []string
}

// Suspend sets or unsets suspend of an application or of one of its components, and nothing else.
func Suspend(app appkind.Application, spec map[string]any, component string, suspend bool) (SuspendResult, error) {
	s := SuspendResult{app: app, Component: component, Suspended: suspend}
	o, err := newOperations(app, spec)
	if err != nil {
		return s, err
	}
	selected, err := o.selected(component)
	if err != nil {
		return s, err
	}
	if component == "" {
		s.Changed = o.appSuspended() != suspend
		if spec[suspendField] = suspend; !suspend {
			delete(spec, suspendField)
		}
		if layout := appkind.Of(app).Layout; layout != nil && layout.SingleComponent { // it cannot be resumed individually
			s.Changed = s.Changed || !suspend && o.suspendedItself(selected[0])
			o.set(selected[0], suspendField, nil)
		}
	} else if s.Changed = o.suspendedItself(selected[0]) != suspend; s.Changed && suspend {
		o.set(selected[0], suspendField, true)
	} else if s.Changed {
		o.set(selected[0], suspendField, nil)
	}
	s.AppSuspended = o.appSuspended()
	for _, c := range o.components {
		if o.suspendedItself(c) {
			s.SuspendedComponents = append(s.SuspendedComponents, o.nameOf(c))
		}
	}
	return s, nil
}

// Message describes the result and the command to resume. resume returns the command that resumes a
// component, or the application if the name is empty.
func (s SuspendResult) Message(resume func(component string) string) string {
	title := displayName(s.app, s.Component)
	if s.Suspended {
		word := "is suspended"
		if !s.Changed {
			word = "is already suspended"
		}
		return fmt.Sprintf("%s %s: it keeps running unchanged; drift is not corrected and updates are not applied. To resume: %s", title, word,
			resume(s.Component))
	}
	word, effect := "is no longer suspended", ": drift is corrected and pending changes are applied now"
	if !s.Changed {
		word, effect = "is not suspended", ""
	}
	switch {
	case s.Component != "" && s.AppSuspended:
		return fmt.Sprintf("%s %s, but the application is suspended, so nothing changes. To resume: %s", title, word, resume(""))
	case s.Component == "" && len(s.SuspendedComponents) > 0:
		return fmt.Sprintf("%s %s%s, except for components that are suspended individually: %s. To resume: %s", title, word, effect,
			strings.Join(s.SuspendedComponents, ", "), resume(s.SuspendedComponents[0]))
	case s.Changed:
		return fmt.Sprintf("%s %s%s.", title, word, effect)
	}
	return title + " " + word + "; nothing to do."
}

// Resumes reports whether the change starts a rollout that can be followed.
func (s SuspendResult) Resumes() bool {
	return !s.Suspended && s.Changed && (s.Component == "" && len(s.SuspendedComponents) == 0 || s.Component != "" && !s.AppSuspended)
}
