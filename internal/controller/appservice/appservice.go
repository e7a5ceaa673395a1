// Package appservice implements the kind AppService, an application with one service component.
//
// Safety rule: it only maps the spec to components. All behavior is in the engine.
package appservice

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=appservices,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=appservices/status,verbs=patch
// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=appservices/finalizers,verbs=update

// Setup registers the AppService controller with a manager.
func Setup(mgr ctrl.Manager, o engine.Options) error {
	return engine.Setup(mgr, engine.Kind[*appsapi.AppService]{
		New:          func() *appsapi.AppService { return &appsapi.AppService{} },
		Components:   appkind.AppServiceComponents,
		Operations:   func(app *appsapi.AppService) *appsapi.Operations { return &app.Spec.Operations },
		SpecPath:     appkind.AppServiceSpecPath,
		UpdateStatus: setStatus,
	}, o)
}

func setStatus(app *appsapi.AppService, components []engine.ComponentStatus) {
	c, s := components[0], &app.Status
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = c.Replicas, c.Ready, c.Available
	s.ReplicasReady = fmt.Sprintf("%d/%d", c.Ready, c.Desired)
	s.Selector = c.Selector
	s.Endpoints = c.Endpoints
}
