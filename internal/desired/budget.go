package desired

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindBudget is the kind of what says how many pods may be missing.
var KindBudget = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")

// wantsBudget says whether enough pods are promised that some can be missing.
func wantsBudget(c appsapi.ServerSpec, autoscaling *appsapi.AutoscalingSettings) bool {
	if c.Disruption.Budget == appsapi.DisruptionNone {
		return false
	}
	return c.Replicas != nil && *c.Replicas > 1 || autoscaling != nil && autoscaling.MinReplicas > 1
}

// budget keeps those who empty nodes from taking too many pods at once.
func budget(owner Owner, c appsapi.Component, name, workload string) Child {
	return Child{ID: ID{Kind: KindBudget, Name: name}, Render: func(runtime.Object) (*Config, error) {
		maxUnavailable := intstr.FromInt32(1)
		if m := serverSpec(c).Disruption.MaxUnavailable; m != nil {
			maxUnavailable = *m
		}
		b := policyv1ac.PodDisruptionBudget(name, owner.Namespace).
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReference(owner)).
			WithSpec(policyv1ac.PodDisruptionBudgetSpec().
				WithMaxUnavailable(maxUnavailable).
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(podSelector(workload))).
				// A pod that does not work protects nobody, and must not keep a node.
				WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
		return newConfig(b, b.ObjectMetaApplyConfiguration)
	}}
}
