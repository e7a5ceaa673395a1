// Package cloudmanager is the kind CloudManager: a product as a kind of its own, and the
// model of how to make one.
//
// Safety rule: it only maps. Whatever a CloudManager does, the engine does; and the password
// in its spec goes nowhere but into the Secret of the database.
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

// Setup makes a manager run CloudManagers.
func Setup(mgr ctrl.Manager, o engine.Options) error {
	return engine.Setup(mgr, engine.Kind[*appsapi.CloudManager]{
		New:                 func() *appsapi.CloudManager { return &appsapi.CloudManager{} },
		Components:          appkind.CloudManagerComponents,
		SummarizeConditions: func(cm *appsapi.CloudManager) { cm.Status.Phase = phase(cm.Status.Conditions) },
		History:             appkind.CloudManagerRevisionSpec,
		DeletionPolicy:      func(cm *appsapi.CloudManager) appsapi.DeletionPolicy { return cm.Spec.DeletionPolicy },
	}, o)
}

// phase is the conditions in one word. A reason that is not known here is trouble: nobody
// looks at an object that is said to be on its way.
func phase(conditions []metav1.Condition) appsapi.Phase {
	ready := meta.FindStatusCondition(conditions, appsapi.ConditionReady)
	switch {
	case ready == nil || ready.Status == metav1.ConditionUnknown:
		return appsapi.PhasePending // nothing has been seen, or nothing can be
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
