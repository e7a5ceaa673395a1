// Package v1alpha1 is the public API: the kinds of the group apps.holdfast.dev, and every label,
// annotation and field manager that Holdfast writes.
//
// Safety rule: names, list keys and meanings change only with an ADR, because objects stored in
// existing clusters must stay readable.
//
// +kubebuilder:object:generate=true
// +groupName=apps.holdfast.dev
package v1alpha1
