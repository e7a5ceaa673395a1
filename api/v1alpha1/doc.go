// Package v1alpha1 is the contract with users: the kinds of the group
// apps.holdfast.dev, and every label, annotation and field manager Holdfast writes.
//
// Safety rule: names, list keys and meanings here change only with an ADR; what is
// stored in somebody's cluster must stay readable.
//
// +kubebuilder:object:generate=true
// +groupName=apps.holdfast.dev
package v1alpha1
