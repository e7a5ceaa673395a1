// Package appservice is the kind AppService: one component, a service.
//
// Safety rule: it only maps. Whatever an AppService does, the engine does.
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

// Setup makes a manager run AppServices.
func Setup(mgr ctrl.Manager, o engine.Options) error {
	return engine.Setup(mgr, engine.Kind[*appsapi.AppService]{
		New:          func() *appsapi.AppService { return &appsapi.AppService{} },
		Components:   appkind.AppServiceComponents,
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
