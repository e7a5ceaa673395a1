// Package appstack implements the kind AppStack, an application with several components and their dependencies.
//
// Safety rule: it only maps the spec to components. All behavior is in the engine.
package appstack

import (
	ctrl "sigs.k8s.io/controller-runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=appstacks,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=appstacks/status,verbs=patch
// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=appstacks/finalizers,verbs=update

// Setup registers the AppStack controller with a manager.
func Setup(mgr ctrl.Manager, o engine.Options) error {
	return engine.Setup(mgr, engine.Kind[*appsapi.AppStack]{
		New:            func() *appsapi.AppStack { return &appsapi.AppStack{} },
		Components:     appkind.AppStackComponents,
		Operations:     func(app *appsapi.AppStack) *appsapi.Operations { return &app.Spec.Operations },
		SpecPath:       appkind.AppStackSpecPath,
		DeletionPolicy: appkind.AppStackDeletionPolicy,
		History:        appkind.AppStackRevisionSpec,
	}, o)
}
