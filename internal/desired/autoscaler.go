package desired

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
)

// KindAutoscaler is the kind of the HorizontalPodAutoscaler.
var KindAutoscaler = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")

// autoscaler returns the HorizontalPodAutoscaler of a service.
func autoscaler(owner Owner, c ExpandedComponent, name string) Child {
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
			WithLabels(childLabels(owner, c)).
			WithOwnerReferences(ownerReferenceConfig(owner)).
			WithSpec(spec)
		return newConfig(owner.Keys, h, h.ObjectMetaApplyConfiguration)
	}}
}
