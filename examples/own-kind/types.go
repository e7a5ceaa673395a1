// +groupName=example.com
// +versionName=v1
// +kubebuilder:object:generate=true

package main

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Guestbook is a page on which people leave a word, and the Redis that keeps it.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Guestbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestbookSpec   `json:"spec"`
	Status            GuestbookStatus `json:"status,omitzero"`
}

// GuestbookSpec is what its users decide.
type GuestbookSpec struct {
	// image of the page; it finds the Redis in REDIS_HOST and REDIS_PORT.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// replicas is how many pods serve the page. Unset means: the live count is left alone.
	Replicas *int32 `json:"replicas,omitempty"`
	// storage is the size of the volume of the Redis.
	Storage resource.Quantity `json:"storage"`
}

// GuestbookStatus is written by the engine.
type GuestbookStatus struct {
	appsapi.ApplicationStatus `json:",inline"`
	appsapi.StackStatus       `json:",inline"`
}

// ApplicationStatus is where the engine puts conditions and causes.
func (g *Guestbook) ApplicationStatus() *appsapi.ApplicationStatus {
	return &g.Status.ApplicationStatus
}

// StackStatus is where the engine puts what it sees of each component.
func (g *Guestbook) StackStatus() *appsapi.StackStatus { return &g.Status.StackStatus }

// GuestbookList is a list of Guestbooks.
// +kubebuilder:object:root=true
type GuestbookList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Guestbook `json:"items"`
}

func addToScheme(s *runtime.Scheme) {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	s.AddKnownTypes(gv, &Guestbook{}, &GuestbookList{})
	metav1.AddToGroupVersion(s, gv)
}
