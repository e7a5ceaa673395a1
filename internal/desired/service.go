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

// KindService is the kind of what leads to the pods of a service.
var KindService = corev1.SchemeGroupVersion.WithKind("Service")

// service leads to the ports of a workload.
func service(owner Owner, c appsapi.Component, name, workload string) Child {
	return Child{
		ID: ID{Kind: KindService, Name: name},
		Render: func(live runtime.Object) (*Config, error) {
			current, _ := live.(*corev1.Service)
			return renderService(owner, c, name, workload, current)
		},
	}
}

func renderService(owner Owner, c appsapi.Component, name, workload string, live *corev1.Service) (*Config, error) {
	server := serverSpec(c)
	settings := server.Service
	if live != nil && live.Spec.ClusterIP != "" && (live.Spec.ClusterIP == corev1.ClusterIPNone) != (settings.Type == appsapi.ServiceHeadless) {
		return nil, &IncompatibleError{Message: "its spec.clusterIP cannot change between None and an address; delete the Service, so that it is made anew, or change service.type of the spec"}
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
	// The pods of an adopted Deployment have our labels only after it was rolled: until
	// its owner takes the annotation away, an adopted Service selects as it did.
	if live == nil || !hasAdoptAnnotation(live) || len(live.Spec.Selector) == 0 || maps.Equal(live.Spec.Selector, podSelector(workload)) {
		spec.WithSelector(podSelector(workload))
	}
	s := corev1ac.Service(name, owner.Namespace).
		WithLabels(childLabels(owner, c)).
		WithOwnerReferences(ownerReference(owner)).
		WithSpec(spec)
	for k, v := range settings.Annotations {
		s.WithAnnotations(map[string]string{k: string(v)})
	}
	return newConfig(s, s.ObjectMetaApplyConfiguration)
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

// checkPortsCompatible refuses a Service that is not ours yet and whose own ports cannot stay beside
// ours: of several ports each needs a name of its own.
func checkPortsCompatible(theirs []corev1.ServicePort, ours []appsapi.Port) error {
	for _, t := range theirs {
		if slices.ContainsFunc(ours, func(o appsapi.Port) bool { return o.Port == t.Port && protocol(o) == t.Protocol }) {
			continue // becomes ours
		}
		for _, o := range ours {
			if t.Name == "" || o.Name == "" || o.Name == t.Name {
				return &IncompatibleError{Message: fmt.Sprintf("its port %d and port %d of the spec need names, and different ones, to be side by side; "+
					"name them, or remove port %d there or add it to the spec", t.Port, o.Port, t.Port)}
			}
		}
	}
	return nil
}
