package edit

import (
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// SuspendResult is what became of spec.suspend.
type SuspendResult struct {
	app application.Application
	// Component is empty when it is about the application as a whole.
	Component string
	// Suspended says whether it is suspended now, Changed whether it was not so before.
	Suspended, Changed bool
	// AppSuspended says whether the application as a whole is suspended now.
	AppSuspended bool
	// SuspendedComponents are suspended on their own.
	SuspendedComponents []string
}

// Suspend sets or unsets spec.suspend of an application, or of one of its components, and nothing
// else.
func Suspend(app application.Application, spec map[string]any, component string, suspend bool) (SuspendResult, error) {
	s := SuspendResult{app: app, Component: component, Suspended: suspend}
	if _, ok := app.(*appsapi.CloudManager); ok {
		return s, application.UserErrorf("%s cannot be suspended: its kind has no field for that; to keep the operator from writing, stop it for all applications: kubectl scale deployment holdfast-operator -n holdfast-system --replicas=0", application.Title(app))
	}
	if err := checkComponent(app, spec, component); err != nil {
		return s, err
	}
	target := spec
	if component != "" {
		target = findByKey(objectList(spec, "components"), "name", component)
	}
	suspended, _ := target["suspend"].(bool)
	s.Changed = suspended != suspend
	switch {
	case !s.Changed:
	case suspend:
		target["suspend"] = true
	default:
		delete(target, "suspend")
	}
	s.AppSuspended, _ = spec["suspend"].(bool)
	for _, c := range componentSpecs(spec) {
		if suspended, _ := c["suspend"].(bool); suspended {
			s.SuspendedComponents = append(s.SuspendedComponents, componentName(c))
		}
	}
	return s, nil
}

// Message say how it is now, and what to do about what is still suspended: resume makes the command
// that resumes a component, or the whole if that is empty.
func (s SuspendResult) Message(resume func(component string) string) string {
	title := displayName(s.app, s.Component)
	if s.Suspended {
		word := "is suspended"
		if !s.Changed {
			word = "is suspended already"
		}
		return fmt.Sprintf("%s %s: what runs keeps running; nothing is repaired or updated. To go on: %s", title, word, resume(s.Component))
	}
	word, effect := "is no longer suspended", ": what changed meanwhile is repaired and applied now"
	if !s.Changed {
		word, effect = "is not suspended", ""
	}
	switch {
	case s.Component != "" && s.AppSuspended:
		return fmt.Sprintf("%s %s, but the whole application is, so nothing happens to it. To go on: %s", title, word, resume(""))
	case s.Component == "" && len(s.SuspendedComponents) > 0:
		return fmt.Sprintf("%s %s%s, apart from what is suspended on its own: %s. To go on there, too: %s", title, word, effect, strings.Join(s.SuspendedComponents, ", "), resume(s.SuspendedComponents[0]))
	case s.Changed:
		return fmt.Sprintf("%s %s%s.", title, word, effect)
	}
	return title + " " + word + "; nothing to do."
}

// Resumes says whether something happens now that can be followed.
func (s SuspendResult) Resumes() bool {
	return !s.Suspended && s.Changed && (s.Component == "" && len(s.SuspendedComponents) == 0 || s.Component != "" && !s.AppSuspended)
}
