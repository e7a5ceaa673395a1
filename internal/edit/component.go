// Package edit changes the spec of an application: restart, suspend, scale, rotate passwords, and
// roll back. The plugin and the application center share it, so that both behave the same.
//
// The editing functions are pure: they change a spec in memory and return the result. A [Writer]
// updates the API server.
//
// Safety rule: only the spec of an application is written, and only if it has not changed since it was
// read. Unknown fields are kept. No edit deletes data.
package edit

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// layoutOf returns the locations of the editable fields of an application. Applications of other operators
// have none, because only their operator knows the meaning of their spec.
func layoutOf(app appkind.Application) (*appkind.Layout, error) {
	kind := appkind.Of(app)
	if kind.Layout == nil {
		return nil, appkind.UserErrorf("%s is managed by another operator; edit its spec: kubectl edit %s.%s %s -n %s",
			appkind.Title(app), kind.Aliases[0], kind.Group, app.GetName(), app.GetNamespace())
	}
	return kind.Layout, nil
}

// selectComponents returns the component with a name, or all components if the name is empty.
func selectComponents(app appkind.Application, layout *appkind.Layout, spec map[string]any, component string) ([]appkind.ComponentSpec, error) {
	all := layout.Components(spec)
	if component == "" {
		return all, nil
	}
	if layout.SingleComponent {
		return nil, appkind.UserErrorf("%s has no components; omit --component", appkind.Title(app)).
			WithNonCLIMessage("%s has no components; omit the component", appkind.Title(app))
	}
	var names []string
	for _, c := range all {
		if c.Name == component {
			return []appkind.ComponentSpec{c}, nil
		}
		names = append(names, c.Name)
	}
	return nil, appkind.UserErrorf("%s has no component %q; it has %s", appkind.Title(app), component, strings.Join(names, ", "))
}

// isSuspended reports whether a component or its application is suspended.
func isSuspended(spec, component map[string]any) bool {
	all, _ := spec["suspend"].(bool)
	own, _ := component["suspend"].(bool)
	return all || own
}

// displayName names an application or one of its components at the beginning of a sentence.
func displayName(app appkind.Application, component string) string {
	if component == "" {
		return appkind.Title(app)
	}
	return fmt.Sprintf("Component %q of %s", component, appkind.Title(app))
}
