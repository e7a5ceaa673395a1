package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AppStack runs an application with several components that depend on each
// other. Components start in dependency order. The Ready condition reports
// whether all of them run as declared and, if not, why.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=as,categories=holdfast
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.componentsReady`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.currentRevision`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the name is the prefix of Service names: it must have at most 63 characters of a-z, 0-9 and -, start with a letter and not end with -"
type AppStack struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the application.
	// +required
	Spec AppStackSpec `json:"spec"`

	// status is the most recently observed state. Only the operator writes it.
	// +optional
	Status AppStackStatus `json:"status,omitzero"`
}

// ApplicationStatus returns the part of the status that all kinds have in
// common.
func (a *AppStack) ApplicationStatus() *ApplicationStatus { return &a.Status.ApplicationStatus }

// StackStatus returns the part of the status that kinds with several components have in common.
func (a *AppStack) StackStatus() *StackStatus { return &a.Status.StackStatus }

// The lists with one element in the first two rules stand in for variables,
// which CEL rules of a schema do not have. Without them the names are computed
// once per component, which costs the API server 0.4 s per write of a stack
// with 64 components, including writes of the status. The messages name the first
// wrong reference, because the estimated cost of joining several exceeds the limit.

// AppStackSpec is the desired state of an AppStack.
//
// +kubebuilder:validation:XValidation:rule="[self.components.map(o, o.name)].all(names, self.components.all(c, !has(c.dependsOn) || sets.contains(names, c.dependsOn)))",fieldPath=".components",message="dependsOn names a component that does not exist; correct the name, or add the component",messageExpression="'dependsOn names a component that does not exist: %s; correct the name, or add the component'.format([[self.components.map(o, o.name)].map(names, self.components.map(c, has(c.dependsOn) ? c.dependsOn.filter(d, !(d in names)).map(d, '%s depends on %s'.format([c.name, d])) : []).filter(found, found.size() > 0))[0][0][0]])"
// +kubebuilder:validation:XValidation:rule="[self.components.filter(o, has(o.service) && has(o.service.ports) && o.service.ports.size() > 0 || has(o.stateful) && has(o.stateful.ports) && o.stateful.ports.size() > 0 || has(o.database)).map(o, o.name)].all(names, self.components.all(c, !has(c.bindings) || sets.contains(names, c.bindings.map(b, b.component))))",fieldPath=".components",message="bindings names a component that does not exist or has no ports; correct the name, add a port to that component, or use dependsOn for a job",messageExpression="'bindings names a component that does not exist or has no ports: %s; correct the name, add a port to that component, or use dependsOn for a job'.format([[self.components.filter(o, has(o.service) && has(o.service.ports) && o.service.ports.size() > 0 || has(o.stateful) && has(o.stateful.ports) && o.stateful.ports.size() > 0 || has(o.database)).map(o, o.name)].map(names, self.components.map(c, has(c.bindings) ? c.bindings.filter(b, !(b.component in names)).map(b, '%s is bound to %s'.format([c.name, b.component])) : []).filter(found, found.size() > 0))[0][0][0]])"
// +kubebuilder:validation:XValidation:rule="!sets.intersects(self.components.map(o, o.name), self.components.filter(c, has(c.renamedFrom)).map(c, c.renamedFrom))",fieldPath=".components",message="renamedFrom names a component that is still in the spec; remove that component, or renamedFrom",messageExpression="'renamedFrom names a component that is still in the spec: %s; remove that component, or renamedFrom'.format([[self.components.map(o, o.name)].map(names, self.components.filter(c, has(c.renamedFrom) && c.renamedFrom in names).map(c, '%s is renamed from %s'.format([c.name, c.renamedFrom])))[0][0]])"
type AppStackSpec struct {
	// deletionPolicy specifies what happens to the volumes and credentials of a
	// stateful or database component when it is removed from the spec or the
	// AppStack is deleted: Retain keeps them, Delete deletes them. Default Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// revisionHistoryLimit is the number of revisions to keep, including the
	// current one. A rollback to a kept revision does not run its completed jobs
	// again. The last revision that became ready is always kept. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	Operations `json:",inline"`

	// components are the components of the application.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Components []Component `json:"components"`
}

// AppStackStatus is the observed state of an AppStack.
type AppStackStatus struct {
	ApplicationStatus `json:",inline"`
	StackStatus       `json:",inline"`
}

// StackStatus is the part of the status that kinds with several components have in common.
type StackStatus struct {
	// components are the observed states of the components, in the order of the
	// spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Components []ComponentStatus `json:"components,omitempty"`

	// componentsReady is the number of healthy components and of all components,
	// for example 3/3.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	ComponentsReady string `json:"componentsReady,omitempty"`

	// retained are the volumes and credentials that are retained although no
	// component uses them, each with the command that deletes it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Retained []Retained `json:"retained,omitempty"`

	// binding is the Secret with the connection details of the first database. It
	// is set once applications can log in to the database.
	// +optional
	Binding *SecretReference `json:"binding,omitempty"`

	// currentRevision is the number of the revision that stores the current spec.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	CurrentRevision string `json:"currentRevision,omitempty"`

	// healthyRevision is the number of the last revision that became ready.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	HealthyRevision string `json:"healthyRevision,omitempty"`
}

// SecretReference references a Secret in the same namespace.
type SecretReference struct {
	// name is the name of the Secret.
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
