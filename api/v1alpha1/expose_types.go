package v1alpha1

// ExposeSettings say how a service is reached from outside of the cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.gatewayRef) != has(self.ingressClassName)",message="say exactly one of gatewayRef (an HTTPRoute for a Gateway) and ingressClassName (an Ingress)"
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.gatewayRef)",fieldPath=".tls",message="behind a Gateway the listener has the certificate; remove tls, and choose the listener with gatewayRef.sectionName"
// +kubebuilder:validation:XValidation:rule="!has(self.paths) || self.paths.all(p, self.paths.exists_one(o, o.path == p.path))",fieldPath=".paths",message="two paths are the same; say each once"
type ExposeSettings struct {
	// hostnames under which it is reached, for example shop.example.com or
	// *.example.com. Unset means all that reach the Gateway or the Ingress
	// controller.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') && !self.matches('^[0-9.]+$')",message="a hostname is a DNS name in lower case, for example shop.example.com or *.example.com, and not an address"
	Hostnames []string `json:"hostnames,omitempty"`

	// paths that lead here, each with everything below it. Default: /, to the
	// first port.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Paths []ExposedPath `json:"paths,omitempty"`

	// gatewayRef attaches an HTTPRoute to a Gateway.
	// +optional
	GatewayRef *GatewayReference `json:"gatewayRef,omitempty"`

	// ingressClassName makes an Ingress of this class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="ingressClassName is the name of an IngressClass: a-z, 0-9, - and ., beginning and ending with a letter or digit; see `kubectl get ingressclass`"
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tls makes the Ingress speak HTTPS.
	// +optional
	TLS *ExposeTLS `json:"tls,omitempty"`
}

// ExposedPath is a path and the port it leads to.
type ExposedPath struct {
	// path that the path of a request begins with, for example /api.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/|(/[-A-Za-z0-9._~!$&()*+,;=:@%]+)+/?)$') && !self.matches('/[.][.]?(/|$)')",message="a path begins with /, has no empty part and none that is . or .., for example / or /api"
	Path string `json:"path"`

	// port of the Service. Default: the first.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// GatewayReference names a Gateway, or one of its listeners.
type GatewayReference struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the Gateway, whose listeners say from where routes may attach.
	// Default: this one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a namespace is made of a-z, 0-9 and -, and begins and ends with a letter or digit"
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of one listener, for example https. Default: all
	// that match.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// ExposeTLS makes an Ingress speak HTTPS.
type ExposeTLS struct {
	// secretName is the Secret of this namespace with the certificate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}
