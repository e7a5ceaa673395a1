package desired

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// What decides how many pods there are, and how many of them may be missing.
var (
	KindAutoscaler = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	KindBudget     = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
)

// autoscaler chooses how many pods a Deployment has.
func autoscaler(owner Owner, c appsapi.Component, name string) Child {
	return Child{ID: ID{Kind: KindAutoscaler, Name: name}, Render: func(runtime.Object) (*Config, error) {
		s := c.Service.Autoscaling
		spec := autoscalingv2ac.HorizontalPodAutoscalerSpec().
			WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
				WithAPIVersion(KindDeployment.GroupVersion().String()).WithKind(KindDeployment.Kind).WithName(name)).
			WithMinReplicas(max(s.MinReplicas, 1)).
			WithMaxReplicas(s.MaxReplicas)
		for _, m := range []struct {
			resource corev1.ResourceName
			target   int32
		}{{corev1.ResourceCPU, s.TargetCPUUtilization}, {corev1.ResourceMemory, s.TargetMemoryUtilization}} {
			if m.target > 0 {
				spec.WithMetrics(autoscalingv2ac.MetricSpec().WithType(autoscalingv2.ResourceMetricSourceType).
					WithResource(autoscalingv2ac.ResourceMetricSource().WithName(m.resource).
						WithTarget(autoscalingv2ac.MetricTarget().WithType(autoscalingv2.UtilizationMetricType).WithAverageUtilization(m.target))))
			}
		}
		h := autoscalingv2ac.HorizontalPodAutoscaler(name, owner.Namespace).
			WithLabels(childLabels(owner, c, "service")).
			WithOwnerReferences(ownerReference(owner)).
			WithSpec(spec)
		return newConfig(h, h.ObjectMetaApplyConfiguration)
	}}
}

// wantsBudget says whether enough pods are promised that some can be missing.
func wantsBudget(c appsapi.ServiceComponent) bool {
	if c.Disruption.Budget == appsapi.DisruptionNone {
		return false
	}
	return c.Replicas != nil && *c.Replicas > 1 || c.Autoscaling != nil && c.Autoscaling.MinReplicas > 1
}

// budget keeps those who empty nodes from taking too many pods at once.
func budget(owner Owner, c appsapi.Component, name string) Child {
	return Child{ID: ID{Kind: KindBudget, Name: name}, Render: func(runtime.Object) (*Config, error) {
		most := intstr.FromInt32(1)
		if m := c.Service.Disruption.MaxUnavailable; m != nil {
			most = *m
		}
		b := policyv1ac.PodDisruptionBudget(name, owner.Namespace).
			WithLabels(childLabels(owner, c, "service")).
			WithOwnerReferences(ownerReference(owner)).
			WithSpec(policyv1ac.PodDisruptionBudgetSpec().
				WithMaxUnavailable(most).
				WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(WorkloadID(KindDeployment.Kind, name)))).
				// A pod that does not work protects nobody, and must not keep a node.
				WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow))
		return newConfig(b, b.ObjectMetaApplyConfiguration)
	}}
}
