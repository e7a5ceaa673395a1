// Package edit changes the spec of an application: restart, suspend, scale, rotate passwords, and
// roll back. The plugin and the application center share it, so that both behave the same.
//
// The editing functions are pure: they change a spec in memory and return the result. A [Writer]
// updates the API server. Requests are stored in the operations of the spec, which manifests do not
// contain, so that applying a manifest again does not repeat or revert them.
//
// Safety rule: only the spec of an application is written, and only if it has not changed since it was
// read. Unknown fields are kept. No edit deletes data.
package edit

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// unsupportedKindError explains that only the operator of an application knows the meaning of its spec.
func unsupportedKindError(app appkind.Application) error {
	kind := appkind.Of(app)
	return appkind.UserErrorf("%s is managed by another operator; edit its spec: kubectl edit %s.%s %s -n %s",
		appkind.Title(app), kind.Aliases[0], kind.Group, app.GetName(), app.GetNamespace())
}

// selected returns the component with a name, or all components if the name is empty.
func (o operations) selected(component string) ([]appkind.ComponentSpec, error) {
	if component == "" {
		return o.components, nil
	}
	if layout := appkind.Of(o.app).Layout; layout != nil && layout.SingleComponent {
		return nil, appkind.UserErrorf("%s has no components; omit --component", appkind.Title(o.app)).
			WithNonCLIMessage("%s has no components; omit the component", appkind.Title(o.app))
	}
	var names []string
	for _, c := range o.components {
		if c.Name == component {
			return []appkind.ComponentSpec{c}, nil
		}
		names = append(names, c.Name)
	}
	return nil, appkind.UserErrorf("%s has no component %q; it has %s", appkind.Title(o.app), component, strings.Join(names, ", "))
}

// displayName names an application or one of its components at the beginning of a sentence.
func displayName(app appkind.Application, component string) string {
	if component == "" {
		return appkind.Title(app)
	}
	return fmt.Sprintf("Component %q of %s", component, appkind.Title(app))
}
