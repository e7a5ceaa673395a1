package edit

import (
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// Suspended is what became of spec.suspend.
type Suspended struct {
	app application.Application
	// Component is empty when it is about the application as a whole.
	Component string
	// Is says whether it is suspended now, Changed whether it was not so before.
	Is, Changed bool
	// All says whether the application as a whole is suspended now.
	All bool
	// Components are suspended on their own.
	Components []string
}

// Suspend sets or unsets spec.suspend of an application, or of one of its components, and nothing
// else.
func Suspend(app application.Application, spec map[string]any, component string, suspend bool) (Suspended, error) {
	s := Suspended{app: app, Component: component, Is: suspend}
	if _, ok := app.(*appsapi.CloudManager); ok {
		return s, application.Refuse("%s cannot be suspended: its kind has no field for that; to keep the operator from writing, stop it for all applications: kubectl scale deployment holdfast-operator -n holdfast-system --replicas=0", application.Title(app))
	}
	if err := checkComponent(app, spec, component); err != nil {
		return s, err
	}
	at := spec
	if component != "" {
		at = find(entries(spec, "components"), "name", component)
	}
	is, _ := at["suspend"].(bool)
	s.Changed = is != suspend
	switch {
	case !s.Changed:
	case suspend:
		at["suspend"] = true
	default:
		delete(at, "suspend")
	}
	s.All, _ = spec["suspend"].(bool)
	for _, c := range componentSpecs(spec) {
		if is, _ := c["suspend"].(bool); is {
			s.Components = append(s.Components, name(c))
		}
	}
	return s, nil
}

// Words say how it is now, and what to do about what is still suspended: resume makes the command
// that resumes a component, or the whole if that is empty.
func (s Suspended) Words(resume func(component string) string) string {
	title := what(s.app, s.Component)
	if s.Is {
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
	case s.Component != "" && s.All:
		return fmt.Sprintf("%s %s, but the whole application is, so nothing happens to it. To go on: %s", title, word, resume(""))
	case s.Component == "" && len(s.Components) > 0:
		return fmt.Sprintf("%s %s%s, apart from what is suspended on its own: %s. To go on there, too: %s", title, word, effect, strings.Join(s.Components, ", "), resume(s.Components[0]))
	case s.Changed:
		return fmt.Sprintf("%s %s%s.", title, word, effect)
	}
	return title + " " + word + "; nothing to do."
}

// GoesOn says whether something happens now that can be followed.
func (s Suspended) GoesOn() bool {
	return !s.Is && s.Changed && (s.Component == "" && len(s.Components) == 0 || s.Component != "" && !s.All)
}
