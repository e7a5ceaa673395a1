package appkind

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Application is an object of a registered kind. Every client.Object of controller-runtime with an
// ApplicationStatus is one; the interface is spelled out because this package has no client.
type Application interface {
	metav1.Object
	runtime.Object
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Stack is an application with several components.
type Stack interface {
	Application
	StackStatus() *appsapi.StackStatus
}

// List is a list of applications of one kind.
type List interface {
	metav1.ListInterface
	runtime.Object
}

// Components returns the components of an application.
func Components(app Application) []desired.ExpandedComponent { return Of(app).Components(app) }

// Rotating returns the component of an application whose passwords are being rotated, or nil. The application stays
// ready meanwhile.
func Rotating(app Application) *appsapi.ComponentStatus {
	stack, ok := app.(Stack)
	if !ok {
		return nil
	}
	components := stack.StackStatus().Components
	for i := range components {
		if components[i].Reason == appsapi.ReasonRotating {
			return &components[i]
		}
	}
	return nil
}

// Owner returns the identity of an application for its children.
func Owner(app Application) desired.Owner {
	apiVersion, kind := Of(app).ToAPIVersionAndKind()
	return desired.Owner{
		APIVersion: apiVersion, Kind: kind,
		Namespace: app.GetNamespace(), Name: app.GetName(), UID: app.GetUID(), Keys: Of(app).Keys, Generation: app.GetGeneration(),
	}
}

// Title returns the name of an application for messages.
func Title(app Application) string {
	return fmt.Sprintf("%s %s/%s", Of(app).Kind, app.GetNamespace(), app.GetName())
}
