package appkind

import appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"

// AppServiceComponents returns one component, whose children have the name of the object.
func AppServiceComponents(app *appsapi.AppService) []appsapi.Component {
	return []appsapi.Component{{
		Name:         app.Name,
		ResourceName: app.Name,
		Suspend:      app.Spec.Suspend,
		Service:      &app.Spec.ServiceComponent,
	}}
}

// AppStackComponents returns the components of a stack. Suspending the stack suspends all of them.
func AppStackComponents(stack *appsapi.AppStack) []appsapi.Component {
	out := make([]appsapi.Component, len(stack.Spec.Components))
	for i, c := range stack.Spec.Components {
		c.Suspend = c.Suspend || stack.Spec.Suspend
		out[i] = c
	}
	return out
}
