package desired

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Kinds that expose a service outside the cluster.
var (
	KindIngress = networkingv1.SchemeGroupVersion.WithKind("Ingress")
	// KindRoute is not part of Kubernetes: its CRD can be installed at any time.
	KindRoute = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}
)

// routeOrIngress returns the HTTPRoute or Ingress of a service.
func routeOrIngress(owner Owner, c ExpandedComponent, name string) Child {
	if c.Service.Expose.GatewayRef != nil {
		return Child{ID: ID{Kind: KindRoute, Name: name}, Render: func(runtime.Object) (*Config, error) {
			return renderRoute(owner, c, name)
		}}
	}
	return Child{ID: ID{Kind: KindIngress, Name: name}, Render: func(runtime.Object) (*Config, error) {
		return renderIngress(owner, c, name)
	}}
}

// exposedPaths returns the exposed paths with their ports.
func exposedPaths(c *appsapi.ServiceComponent) []appsapi.ExposedPath {
	paths := []appsapi.ExposedPath{{Path: "/"}}
	if len(c.Expose.Paths) > 0 {
		paths = append([]appsapi.ExposedPath(nil), c.Expose.Paths...)
	}
	for i := range paths {
		if paths[i].Port == 0 {
			paths[i].Port = c.Ports[0].Port
		}
	}
	return paths
}

func renderIngress(owner Owner, c ExpandedComponent, name string) (*Config, error) {
	e := c.Service.Expose
	http := networkingv1ac.HTTPIngressRuleValue()
	for _, p := range exposedPaths(c.Service) {
		http.WithPaths(networkingv1ac.HTTPIngressPath().WithPath(p.Path).WithPathType(networkingv1.PathTypePrefix).
			WithBackend(networkingv1ac.IngressBackend().WithService(networkingv1ac.IngressServiceBackend().WithName(name).
				WithPort(networkingv1ac.ServiceBackendPort().WithNumber(p.Port)))))
	}
	spec := networkingv1ac.IngressSpec().WithIngressClassName(e.IngressClassName)
	for _, host := range e.Hostnames {
		spec.WithRules(networkingv1ac.IngressRule().WithHost(host).WithHTTP(http))
	}
	if len(e.Hostnames) == 0 {
		spec.WithRules(networkingv1ac.IngressRule().WithHTTP(http))
	}
	if e.TLS != nil {
		spec.WithTLS(networkingv1ac.IngressTLS().WithHosts(e.Hostnames...).WithSecretName(e.TLS.SecretName))
	}
	i := networkingv1ac.Ingress(name, owner.Namespace).
		WithLabels(childLabels(owner, c)).
		WithOwnerReferences(ownerReferenceConfig(owner)).
		WithSpec(spec)
	return newConfig(owner.Keys, i, i.ObjectMetaApplyConfiguration)
}

// httpRoute is the apply configuration of an HTTPRoute. It sets the defaults inside of atomic lists explicitly:
// the API server adds the defaults, and missing defaults would count as drift.
type httpRoute struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`
	Spec                                   routeSpec `json:"spec"`
}

type routeSpec struct {
	ParentRefs []routeParent `json:"parentRefs"`
	Hostnames  []string      `json:"hostnames,omitempty"`
	Rules      []routeRule   `json:"rules"`
}

type routeParent struct {
	Group       string `json:"group"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName,omitempty"`
}

type routeRule struct {
	Matches     []routeMatch   `json:"matches"`
	BackendRefs []routeBackend `json:"backendRefs"`
}

type routeMatch struct {
	Path routePath `json:"path"`
}

type routePath struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type routeBackend struct {
	Group  string `json:"group"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Port   int32  `json:"port"`
	Weight int32  `json:"weight"`
}

func renderRoute(owner Owner, c ExpandedComponent, name string) (*Config, error) {
	e := c.Service.Expose
	spec := routeSpec{Hostnames: e.Hostnames, ParentRefs: []routeParent{{
		Group: KindRoute.Group, Kind: "Gateway",
		Name: e.GatewayRef.Name, Namespace: e.GatewayRef.Namespace, SectionName: e.GatewayRef.SectionName,
	}}}
	for _, p := range exposedPaths(c.Service) {
		spec.Rules = append(spec.Rules, routeRule{
			Matches:     []routeMatch{{routePath{Type: "PathPrefix", Value: p.Path}}},
			BackendRefs: []routeBackend{{Kind: KindService.Kind, Name: name, Port: p.Port, Weight: 1}},
		})
	}
	meta := (&metav1ac.ObjectMetaApplyConfiguration{}).WithName(name).WithNamespace(owner.Namespace).
		WithLabels(childLabels(owner, c)).
		WithOwnerReferences(ownerReferenceConfig(owner))
	var kind metav1ac.TypeMetaApplyConfiguration
	kind.WithAPIVersion(KindRoute.GroupVersion().String()).WithKind(KindRoute.Kind)
	return newConfig(owner.Keys, &httpRoute{kind, meta, spec}, meta)
}

// externalEndpoints returns the external addresses of a service. Whether a Gateway listener uses HTTPS is
// derived from its name.
func externalEndpoints(e *appsapi.ExposeSettings) []appsapi.Endpoint {
	scheme, path := "http", "/"
	if e.TLS != nil || e.GatewayRef != nil && strings.HasPrefix(e.GatewayRef.SectionName, "https") {
		scheme = "https"
	}
	if len(e.Paths) > 0 {
		path = e.Paths[0].Path
	}
	var out []appsapi.Endpoint
	for _, host := range e.Hostnames {
		out = append(out, appsapi.Endpoint{Name: host, URL: scheme + "://" + host + path})
	}
	return out
}
