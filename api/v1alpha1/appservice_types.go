package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AppService is one service from one image: a Deployment, and a Service when
// it has ports. Its Ready condition says whether it runs as declared and, if
// not, why.
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the name becomes the name of a Service: at most 63 of a-z, 0-9 and -, beginning with a letter and not ending with -"
type AppService struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to run.
	// +required
	Spec AppServiceSpec `json:"spec"`

	// status is what was seen last.
	// +optional
	Status AppServiceStatus `json:"status,omitzero"`
}

// ApplicationStatus is the part of the status that every kind has.
func (a *AppService) ApplicationStatus() *ApplicationStatus { return &a.Status.ApplicationStatus }

// AppServiceSpec is what is to run.
type AppServiceSpec struct {
	ServiceComponent `json:",inline"`

	// suspend makes the operator keep its hands off: nothing is written, what runs
	// keeps running as it is.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// AppServiceStatus is what was seen last.
type AppServiceStatus struct {
	ApplicationStatus `json:",inline"`

	// replicas is how many pods there were at the last transition.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them were ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas int32 `json:"readyReplicas"`

	// availableReplicas is how many of them were ready for minReadySeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas int32 `json:"availableReplicas"`

	// replicasReady is ready and wanted pods in one word, for example 2/2.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ReplicasReady string `json:"replicasReady,omitempty"`

	// selector finds the pods; autoscalers read it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Selector string `json:"selector,omitempty"`

	// endpoints are the addresses of the service: outside of the cluster first, if
	// it is exposed, then inside.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is an address of a service.
type Endpoint struct {
	// name of the port, or its number when it has no name; outside of the cluster
	// the hostname.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// url to reach it, for example http://web.shop.svc:80.
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
