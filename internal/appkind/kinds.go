// Package appkind says what the objects of each kind consist of. The operator runs it, and
// whoever shows what the operator would do uses the same words.
//
// Safety rule: it reads an object and leaves it as it is. What it says differently tomorrow
// replaces pods in every cluster that is upgraded.
package appkind

import (
	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// AppServiceComponents is one component, whose children are named like the object.
func AppServiceComponents(app *appsapi.AppService) []appsapi.Component {
	return []appsapi.Component{{
		Name:         app.Name,
		ResourceName: app.Name,
		Suspend:      app.Spec.Suspend,
		Service:      &app.Spec.ServiceComponent,
	}}
}

// AppStackComponents is the components of its spec; suspending the stack suspends each.
func AppStackComponents(stack *appsapi.AppStack) []appsapi.Component {
	out := make([]appsapi.Component, len(stack.Spec.Components))
	for i, c := range stack.Spec.Components {
		c.Suspend = c.Suspend || stack.Spec.Suspend
		out[i] = c
	}
	return desired.ExpandDatabases(out)
}
