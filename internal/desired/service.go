package desired

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// KindService is the kind of the Service.
var KindService = corev1.SchemeGroupVersion.WithKind("Service")

// service returns the Service of a workload.
func service(owner Owner, c ExpandedComponent, name, workload string) Child {
	return Child{
		ID: ID{Kind: KindService, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*corev1.Service)
			return renderService(owner, c, name, workload, current)
		},
	}
}

func renderService(owner Owner, c ExpandedComponent, name, workload string, live *corev1.Service) (*Config, error) {
	server := longRunningSpec(c)
	settings := server.Service
	if live != nil && live.Spec.ClusterIP != "" && (live.Spec.ClusterIP == corev1.ClusterIPNone) != (settings.Type == appsapi.ServiceHeadless) {
		return nil, &IncompatibleError{Message: "its spec.clusterIP cannot change between None and an address; " +
			"delete the Service to have it recreated, or change service.type in the spec"}
	}
	if live != nil && !metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: owner.UID}) {
		if err := checkPortsCompatible(live.Spec.Ports, server.Ports); err != nil {
			return nil, err
		}
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
	spec.WithPorts(servicePorts(server.Ports)...)
	// The pods of an adopted Deployment get the new labels only with its next rollout: an adopted Service keeps
	// its selector until a user removes the adopt annotation.
	if live == nil || !hasAdoptAnnotation(owner.Keys, live) || len(live.Spec.Selector) == 0 || maps.Equal(live.Spec.Selector, podSelector(owner.Keys, workload)) {
		spec.WithSelector(podSelector(owner.Keys, workload))
	}
	s := corev1ac.Service(name, owner.Namespace).
		WithLabels(childLabels(owner, c)).
		WithOwnerReferences(ownerReferenceConfig(owner)).
		WithSpec(spec)
	for k, v := range settings.Annotations {
		s.WithAnnotations(map[string]string{k: string(v)})
	}
	return newConfig(owner.Keys, s, s.ObjectMetaApplyConfiguration)
}

func servicePorts(ports []appsapi.Port) []*corev1ac.ServicePortApplyConfiguration {
	var out []*corev1ac.ServicePortApplyConfiguration
	for _, p := range ports {
		port := corev1ac.ServicePort().WithPort(p.Port).WithProtocol(protocol(p)).WithTargetPort(intstr.FromInt32(targetPort(p)))
		if p.Name != "" {
			port.WithName(p.Name)
		}
		out = append(out, port)
	}
	return out
}

// checkPortsCompatible rejects the adoption of a Service if its undeclared ports conflict with the declared
// ports: in a Service with several ports, each port needs a unique name.
func checkPortsCompatible(theirs []corev1.ServicePort, ours []appsapi.Port) error {
	for _, t := range theirs {
		if slices.ContainsFunc(ours, func(o appsapi.Port) bool { return o.Port == t.Port && protocol(o) == t.Protocol }) {
			continue // will be owned
		}
		for _, o := range ours {
			if t.Name == "" || o.Name == "" || o.Name == t.Name {
				return &IncompatibleError{Message: fmt.Sprintf("its port %d and port %d of the spec must have different names; "+
					"name both ports, remove port %d from the Service, or add it to the spec", t.Port, o.Port, t.Port)}
			}
		}
	}
	return nil
}
