// Package appstack is the kind AppStack: several components, and what needs what.
//
// Safety rule: it only maps. Whatever an AppStack does, the engine does.
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

// Setup makes a manager run AppStacks.
func Setup(mgr ctrl.Manager, o engine.Options) error {
	return engine.Setup(mgr, engine.Kind[*appsapi.AppStack]{
		New:            func() *appsapi.AppStack { return &appsapi.AppStack{} },
		Components:     appkind.AppStackComponents,
		DeletionPolicy: func(stack *appsapi.AppStack) appsapi.DeletionPolicy { return stack.Spec.DeletionPolicy },
		History:        appkind.AppStackRevisionSpec,
	}, o)
}
