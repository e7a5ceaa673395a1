package v1alpha1

// Standard labels on all children: name is the type of the component, instance and part-of are the
// application, component is the component. Labels with the prefix of an operator are in Keys.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance" // on pods too
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelVersion   = "app.kubernetes.io/version"

	// LabelManagedBy has the value ManagedBy on children and pods. The caches of the operator select
	// by it, and it is part of every selector.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "holdfast"
)

// PruneDisabled is the value of the annotation Keys.Prune that disables pruning of a child.
const PruneDisabled = "disabled"
