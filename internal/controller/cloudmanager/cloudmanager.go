// Package cloudmanager implements the kind CloudManager, a product-specific kind and an example of how to write one.
//
// Safety rule: it only maps the spec to components; all behavior is in the engine. The password in the spec is only
// written to the Secret of the database.
package cloudmanager

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=cloudmanagers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=cloudmanagers/status,verbs=patch
// +kubebuilder:rbac:groups=apps.holdfast.dev,resources=cloudmanagers/finalizers,verbs=update

// Setup registers the CloudManager controller with a manager.
func Setup(mgr ctrl.Manager, o engine.Options) error {
	return engine.Setup(mgr, engine.Kind[*appsapi.CloudManager]{
		New:                 func() *appsapi.CloudManager { return &appsapi.CloudManager{} },
		Components:          appkind.CloudManagerComponents,
		Operations:          func(app *appsapi.CloudManager) *appsapi.Operations { return &app.Spec.Operations },
		SpecPath:            appkind.CloudManagerSpecPath,
		PlainPasswords:      appkind.CloudManagerPasswords,
		SummarizeConditions: func(cm *appsapi.CloudManager) { cm.Status.Phase = phase(cm.Status.Conditions) },
		History:             appkind.CloudManagerRevisionSpec,
		DeletionPolicy:      appkind.CloudManagerDeletionPolicy,
	}, o)
}

// phase summarizes the conditions. Unknown reasons map to Degraded, because users ignore objects that are Progressing.
func phase(conditions []metav1.Condition) appsapi.Phase {
	ready := meta.FindStatusCondition(conditions, appsapi.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return appsapi.PhasePending // not reconciled yet, or the state is unknown
	case ready.Status == metav1.ConditionTrue:
		return appsapi.PhaseReady
	case ready.Reason == appsapi.ReasonDeleting:
		return appsapi.PhaseDeleting
	case meta.IsStatusConditionTrue(conditions, appsapi.ConditionStalled):
		return appsapi.PhaseDegraded
	}
	switch ready.Reason {
	case appsapi.ReasonProgressing, appsapi.ReasonWaitingForDependency, appsapi.ReasonStorageResizing, appsapi.ReasonDatabaseStarting:
		return appsapi.PhaseProgressing
	}
	return appsapi.PhaseDegraded
}
