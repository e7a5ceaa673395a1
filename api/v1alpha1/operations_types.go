package v1alpha1

import "slices"

// Operations are requests to the operator that are not part of the manifest
// of an application. `kubectl holdfast` writes them. Tools that apply the
// manifest again do not change them, because the manifest does not contain
// them.
//
// A kind of another operator supports `kubectl holdfast restart`, suspend,
// resume and rotate if its spec embeds Operations inline and its engine.Kind
// returns them.
type Operations struct {
	// suspend pauses reconciliation of all components: drift is not corrected and
	// updates are not applied. Existing pods keep running. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// operations are requests for individual components: restarts, password
	// rotations, suspended components and replicas. `kubectl holdfast` writes
	// them. A manifest usually omits them, so that applying it again does not
	// change them.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MaxItems=128
	Operations []ComponentOperations `json:"operations,omitempty"`
}

// ComponentOperations are requests for one component.
type ComponentOperations struct {
	// component is the name of the component. The component of an AppService has
	// the name of the AppService.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component"`

	// restartRequestedAt replaces all pods when its value changes; by convention a
	// timestamp. Removing it replaces no pods. Jobs do not run again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RestartRequestedAt string `json:"restartRequestedAt,omitempty"`

	// rotationRequestedAt rotates the generated passwords of a database when its
	// value changes; by convention a timestamp. Removing it rotates nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RotationRequestedAt string `json:"rotationRequestedAt,omitempty"`

	// suspend pauses reconciliation of this component: drift is not corrected and
	// updates are not applied. Existing pods keep running. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// replicas is the number of pods of a component whose spec sets neither
	// replicas nor autoscaling. It has no effect on jobs and databases.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`
}

// OperationsOf returns the operations of a component. A component that was
// renamed keeps those of its previous name until it has its own.
func (o *Operations) OperationsOf(name, renamedFrom string) ComponentOperations {
	var out ComponentOperations
	if i := o.index(name); i >= 0 {
		out = o.Operations[i]
	} else if i := o.index(renamedFrom); i >= 0 {
		out = o.Operations[i]
	}
	out.Suspend = out.Suspend || o.Suspend
	return out
}

// EditOperations changes the operations of a component.
func (o *Operations) EditOperations(name string, edit func(*ComponentOperations)) {
	i := o.index(name)
	if i < 0 {
		i = len(o.Operations)
		o.Operations = append(o.Operations, ComponentOperations{Component: name})
	}
	edit(&o.Operations[i])
}

func (o *Operations) index(name string) int {
	return slices.IndexFunc(o.Operations, func(c ComponentOperations) bool { return c.Component == name })
}
