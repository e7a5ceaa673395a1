package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AppStack is a whole application: several components, and what needs what.
// They are brought up in order, and its Ready condition says whether all of
// them run as declared and, if not, why.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=appstack,categories=holdfast
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.componentsReady`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.currentRevision`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the names of Services begin with this name: at most 63 of a-z, 0-9 and -, beginning with a letter and not ending with -"
type AppStack struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to run.
	// +required
	Spec AppStackSpec `json:"spec"`

	// status is what was seen last.
	// +optional
	Status AppStackStatus `json:"status,omitzero"`
}

// ApplicationStatus is the part of the status that every kind has.
func (a *AppStack) ApplicationStatus() *ApplicationStatus { return &a.Status.ApplicationStatus }

// StackStatus is the part of the status that kinds of several components have.
func (a *AppStack) StackStatus() *StackStatus { return &a.Status.StackStatus }

// The list of one in the first rules is how CEL says "let names be": made anew for every
// component, the names cost the API server 0.4 s at each write of 64 components, those of
// the status included.

// AppStackSpec is what is to run.
//
// +kubebuilder:validation:XValidation:rule="[self.components.map(o, o.name)].all(names, self.components.all(c, !has(c.dependsOn) || sets.contains(names, c.dependsOn)))",fieldPath=".components",message="dependsOn names a component that does not exist; correct the name, or add the component"
// +kubebuilder:validation:XValidation:rule="[self.components.filter(o, has(o.service) && has(o.service.ports) && o.service.ports.size() > 0 || has(o.stateful) && has(o.stateful.ports) && o.stateful.ports.size() > 0 || has(o.database)).map(o, o.name)].all(names, self.components.all(c, !has(c.bindings) || sets.contains(names, c.bindings.map(b, b.component))))",fieldPath=".components",message="bindings names a component that does not exist or has no ports; correct the name, give that one a port, or use dependsOn for a job"
// +kubebuilder:validation:XValidation:rule="!sets.intersects(self.components.map(o, o.name), self.components.filter(c, has(c.renamedFrom)).map(c, c.renamedFrom))",fieldPath=".components",message="renamedFrom names a component that is still there; remove that one, or renamedFrom"
type AppStackSpec struct {
	// deletionPolicy says what becomes of the volumes and the credentials of a
	// stateful component that leaves the spec, or whose application is deleted:
	// Retain keeps them, Delete deletes them. Default Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// revisionHistoryLimit is how many specs are remembered, the current one
	// included, so that one can go back without running a job twice. The last one
	// with which everything was ready is always among them. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// suspend makes the operator keep its hands off: nothing is written, what runs
	// keeps running as it is.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// components are what the application consists of.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Components []Component `json:"components"`
}

// AppStackStatus is what was seen last.
type AppStackStatus struct {
	ApplicationStatus `json:",inline"`
	StackStatus       `json:",inline"`
}

// StackStatus is the part of the status that kinds of several components have.
type StackStatus struct {
	// components are what was seen of each component, in the order of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Components []ComponentStatus `json:"components,omitempty"`

	// componentsReady is healthy and all components in one word, for example 3/3.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ComponentsReady string `json:"componentsReady,omitempty"`

	// retained is the data that is kept although no component wants it, and how
	// to remove it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Retained []Retained `json:"retained,omitempty"`

	// binding is the Secret that says how to get into the first database, once
	// that lets somebody in.
	// +optional
	Binding *SecretReference `json:"binding,omitempty"`

	// currentRevision is the number under which the spec is remembered.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	CurrentRevision string `json:"currentRevision,omitempty"`

	// healthyRevision is the last one with which everything was ready.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	HealthyRevision string `json:"healthyRevision,omitempty"`
}

// SecretReference names a Secret of the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AppStackList is a list of AppStacks.
//
// +kubebuilder:object:root=true
type AppStackList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppStack `json:"items"`
}
