package appkind

import appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"

// AppServiceComponents returns one component, whose children have the name of the object.
func AppServiceComponents(app *appsapi.AppService) []appsapi.Component {
	return []appsapi.Component{{
		Name:         app.Name,
		ResourceName: app.Name,
		Service:      &app.Spec.ServiceComponent,
	}}
}

// AppStackComponents returns the components of a stack.
func AppStackComponents(stack *appsapi.AppStack) []appsapi.Component { return stack.Spec.Components }
