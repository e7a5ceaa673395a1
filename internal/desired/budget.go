package desired

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindBudget is the kind of the PodDisruptionBudget.
var KindBudget = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")

// wantsBudget reports whether a component has more than one replica and its budget is not disabled.
func wantsBudget(c appsapi.ServerSpec, autoscaling *appsapi.AutoscalingSettings) bool {
	if c.Disruption.Budget == appsapi.DisruptionNone {
		return false
	}
	return c.Replicas != nil && *c.Replicas > 1 || autoscaling != nil && autoscaling.MinReplicas > 1
}

// budget returns the PodDisruptionBudget of a component.
func budget(owner Owner, c ExpandedComponent, name, workload string) Child {
	return Child{ID: ID{Kind: KindBudget, Name: name}, Render: func(runtime.Object) (*Config, error) {
		maxUnavailable := intstr.FromInt32(1)
		if m := longRunningSpec(c).Disruption.MaxUnavailable; m != nil {
			maxUnavailable = *m
		}
		b := policyv1ac.PodDisruptionBudget(name, owner.Namespace).
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReferenceConfig(owner)).
			WithSpec(policyv1ac.PodDisruptionBudgetSpec().
				WithMaxUnavailable(maxUnavailable).
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(owner.Keys, workload))).
				// A pod that is not ready serves no requests, so it must not block a node drain.
				WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
		return newConfig(owner.Keys, b, b.ObjectMetaApplyConfiguration)
	}}
}
