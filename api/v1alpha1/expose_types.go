package v1alpha1

// ExposeSettings configure how a service is reached from outside the cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.gatewayRef) != has(self.ingressClassName)",message="expose must set exactly one of gatewayRef (creates an HTTPRoute) and ingressClassName (creates an Ingress)"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.gatewayRef)",fieldPath=".tls",message="tls cannot be combined with gatewayRef, because the listener of the Gateway has the certificate; remove tls, and select the listener with gatewayRef.sectionName"
// +kubebuilder:validation:XValidation:rule="!has(self.paths) || self.paths.all(p, self.paths.exists_one(o, o.path == p.path))",fieldPath=".paths",message="paths contains the same path twice; remove one of them"
type ExposeSettings struct {
	// hostnames are the DNS names of the service, for example shop.example.com or
	// *.example.com. Unset: all hostnames that reach the Gateway or the Ingress
	// controller.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !self.matches('^[0-9.]+$')",message="a hostname must be a lowercase DNS name and not an IP address, for example shop.example.com or *.example.com"
	Hostnames []string `json:"hostnames,omitempty"`

	// paths are the path prefixes that are routed to the service. Default: / to
	// the first port.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Paths []ExposedPath `json:"paths,omitempty"`

	// gatewayRef is the Gateway that an HTTPRoute is attached to.
	// +optional
	GatewayRef *GatewayReference `json:"gatewayRef,omitempty"`

	// ingressClassName is the IngressClass of the Ingress, for example nginx.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="ingressClassName must be the name of an IngressClass: a-z, 0-9, - and ., starting and ending with a letter or digit; run `kubectl get ingressclass` to list them"
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tls enables HTTPS for the Ingress.
	// +optional
	TLS *ExposeTLS `json:"tls,omitempty"`
}

// ExposedPath is a path prefix and the port that it is routed to.
type ExposedPath struct {
	// path is the prefix of the request path, for example /api.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/|(/[-A-Za-z0-9._~!$&()*+,;=:@%]+)+/?)$') && !self.matches('/[.][.]?(/|$)')",message="a path must start with / and have no empty, . or .. segments, for example / or /api"
	Path string `json:"path"`

	// port is the port of the Service. Default: the first port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// GatewayReference references a Gateway, or one of its listeners.
type GatewayReference struct {
	// name is the name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace is the namespace of the Gateway, whose listener must allow routes
	// from the namespace of the application. Default: the namespace of the
	// application.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a namespace name must consist of a-z, 0-9 and -, and start and end with a letter or digit"
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener of the Gateway, for example https.
	// Default: all matching listeners.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// ExposeTLS enables HTTPS for an Ingress.
type ExposeTLS struct {
	// secretName is the Secret in the same namespace with the TLS certificate and
	// key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}
