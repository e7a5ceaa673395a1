package desired

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindService is the kind of what leads to the pods of a service.
var KindService = corev1.SchemeGroupVersion.WithKind("Service")

// service leads to the ports of a workload.
func service(owner Owner, c appsapi.Component, name string) Child {
	return Child{
		ID: ID{Kind: KindService, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*corev1.Service)
			return renderService(owner, c, name, current)
		},
	}
}

func renderService(owner Owner, c appsapi.Component, name string, live *corev1.Service) (*Config, error) {
	settings := c.Service.Service
	if live != nil && live.Spec.ClusterIP != "" && (live.Spec.ClusterIP == corev1.ClusterIPNone) != (settings.Type == appsapi.ServiceHeadless) {
		return nil, &Refusal{Why: "its spec.clusterIP cannot change between None and an address"}
	}
	spec := corev1ac.ServiceSpec()
	switch settings.Type {
	case appsapi.ServiceHeadless:
		spec.WithType(corev1.ServiceTypeClusterIP).WithClusterIP(corev1.ClusterIPNone)
	case "":
		spec.WithType(corev1.ServiceTypeClusterIP)
	default:
		spec.WithType(corev1.ServiceType(settings.Type))
	}
	if settings.SessionAffinity != "" {
		spec.WithSessionAffinity(settings.SessionAffinity)
	}
	for _, p := range c.Service.Ports {
		port := corev1ac.ServicePort().WithPort(p.Port).WithProtocol(protocol(p)).WithTargetPort(intstr.FromInt32(target(p)))
		if p.Name != "" {
			port.WithName(p.Name)
		}
		spec.WithPorts(port)
	}
	// The pods of an adopted Deployment have our labels only after it was rolled: until
	// its owner takes the annotation away, an adopted Service selects as it did.
	workload := WorkloadID(KindDeployment.Kind, name)
	if live == nil || !adopted(live) || len(live.Spec.Selector) == 0 || maps.Equal(live.Spec.Selector, selector(workload)) {
		spec.WithSelector(selector(workload))
	}
	s := corev1ac.Service(name, owner.Namespace).
		WithLabels(childLabels(owner, c, "service", c.Service.Image)).
		WithOwnerReferences(ownerReference(owner)).
		WithSpec(spec)
	for k, v := range settings.Annotations {
		s.WithAnnotations(map[string]string{k: string(v)})
	}
	return newConfig(s, s.ObjectMetaApplyConfiguration)
}
