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

// Guestbook is a web page for visitors, with a Redis that stores their entries.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="apps.holdfast.dev/application=true"
// +kubebuilder:metadata:annotations="apps.holdfast.dev/label-prefix=guestbook.example.com"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Guestbook struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GuestbookSpec   `json:"spec"`
	Status            GuestbookStatus `json:"status,omitzero"`
}

// GuestbookSpec is the desired state of a Guestbook.
type GuestbookSpec struct {
	appsapi.Operations `json:",inline"` // kubectl holdfast restart, suspend, resume and rotate
	// image is the image of the page. It finds Redis in REDIS_HOST and REDIS_PORT.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image"`
	// replicas is the number of pods of the page. If unset, the live count is preserved.
	Replicas *int32 `json:"replicas,omitempty"`
	// storage is the size of the Redis volume.
	Storage resource.Quantity `json:"storage"`
}

// GuestbookStatus is written by the engine.
type GuestbookStatus struct {
	appsapi.ApplicationStatus `json:",inline"`
	appsapi.StackStatus       `json:",inline"`
}

// ApplicationStatus is the status that the engine writes.
func (g *Guestbook) ApplicationStatus() *appsapi.ApplicationStatus {
	return &g.Status.ApplicationStatus
}

// StackStatus is the status of the components that the engine writes.
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
