package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AppService runs one service from one container image: a Deployment and, if
// it has ports, a Service. The Ready condition reports whether it runs as
// declared and, if not, why.
//
// +genclient
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
// +genclient:method=UpdateScale,verb=update,subresource=scale,input=k8s.io/api/autoscaling/v1.Scale,result=k8s.io/api/autoscaling/v1.Scale
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=appsvc,categories=holdfast
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicasReady`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.endpoints[0].url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the name is used as the name of a Service: it must have at most 63 characters of a-z, 0-9 and -, start with a letter and not end with -"
type AppService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the service.
	// +required
	Spec AppServiceSpec `json:"spec"`

	// status is the most recently observed state. Only the operator writes it.
	// +optional
	Status AppServiceStatus `json:"status,omitzero"`
}

// ApplicationStatus returns the part of the status that all kinds have in
// common.
func (a *AppService) ApplicationStatus() *ApplicationStatus { return &a.Status.ApplicationStatus }

// AppServiceSpec is the desired state of an AppService.
type AppServiceSpec struct {
	ServiceComponent `json:",inline"`
	Operations       `json:",inline"`
}

// AppServiceStatus is the observed state of an AppService.
type AppServiceStatus struct {
	ApplicationStatus `json:",inline"`

	// replicas is the number of pods when the status was last updated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of ready pods when the status was last updated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is the number of pods that have been ready for at least
	// minReadySeconds when the status was last updated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`

	// replicasReady is the number of ready pods and of desired pods, for example
	// 2/2.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ReplicasReady string `json:"replicasReady,omitempty"`

	// selector is the label selector of the pods in string form. The scale
	// subresource returns it to autoscalers.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// endpoints are the addresses of the service: external addresses first if
	// expose is set, then the addresses inside the cluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is an address of a service.
type Endpoint struct {
	// name is the name of the port, or its number if the port has no name. For an
	// external address it is the hostname.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// url is the URL of the address, for example http://web.shop.svc:80.
	// +required
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url"`
}

// AppServiceList is a list of AppServices.
//
// +kubebuilder:object:root=true
type AppServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppService `json:"items"`
}
