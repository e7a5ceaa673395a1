// Package edit decides how the spec of an application becomes another one: restarted, suspended,
// with another number of pods, or as it was before. Plugin and center share it, so that both do
// the same.
//
// The deciding functions are pure: a spec as the API server has it goes in and is changed, and
// what was decided comes out. A [Writer] brings it to the API server.
//
// Safety rule: nothing is written but the spec of an application, and only as it was when the
// decision was made. Fields that this version does not know stay. No decision loses data.
package edit

import (
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// componentSpecs are the components in a spec as the API server has it.
func componentSpecs(spec map[string]any) []map[string]any {
	var out []map[string]any
	for _, entry := range objectList(spec, "components") {
		out = append(out, entry.(map[string]any))
	}
	return out
}

// checkComponent refuses the name of a component that an application does not have. None means
// the application as a whole.
func checkComponent(app application.Application, spec map[string]any, component string) error {
	if component == "" {
		return nil
	}
	if _, ok := app.(*appsapi.AppService); ok {
		return application.UserErrorf("%s has no components; leave --component out", application.Title(app)).
			WithNonCLIMessage("%s has no components; leave the component out", application.Title(app))
	}
	var names []string
	for _, c := range componentSpecs(spec) {
		if componentName(c) == component {
			return nil
		}
		names = append(names, componentName(c))
	}
	return noComponentError(app, component, names)
}

func noComponentError(app application.Application, component string, names []string) error {
	return application.UserErrorf("%s has no component %q; it has %s", application.Title(app), component, strings.Join(names, ", "))
}

// longRunningSpec is the part of a component that has pods which go on, if it has one.
func longRunningSpec(component map[string]any) map[string]any {
	for _, field := range []string{"service", "stateful", "database"} {
		if s, ok := component[field].(map[string]any); ok {
			return s
		}
	}
	return nil
}

// isSuspended says whether nothing happens to a component, or to the whole, before it is resumed.
func isSuspended(spec, component map[string]any) bool {
	all, _ := spec["suspend"].(bool)
	own, _ := component["suspend"].(bool)
	return all || own
}

// displayName names an application, or one of its components, at the beginning of a sentence.
func displayName(app application.Application, component string) string {
	if component == "" {
		return application.Title(app)
	}
	return fmt.Sprintf("Component %q of %s", component, application.Title(app))
}
