package v1alpha1

// Label and annotations of a CustomResourceDefinition whose kind another operator runs with the
// engine. Plugin and center list, explain and show the applications of such kinds. Example for
// controller-gen:
//
//	+kubebuilder:metadata:labels="apps.holdfast.dev/application=true"
//	+kubebuilder:metadata:annotations="apps.holdfast.dev/label-prefix=guestbook.example.com"
const (
	// LabelApplicationKind is "true" on a CustomResourceDefinition whose objects are applications.
	LabelApplicationKind = "apps.holdfast.dev/application"
	// AnnotationLabelPrefix is the prefix of the labels and annotations that the operator of the kind
	// sets. Default: apps.holdfast.dev.
	AnnotationLabelPrefix = "apps.holdfast.dev/label-prefix"
	// AnnotationFieldManager is the field manager of the operator of the kind. Default: holdfast.
	AnnotationFieldManager = "apps.holdfast.dev/field-manager"
	// AnnotationFinalizer is the finalizer of the operator of the kind. Default: ordered-deletion with
	// the label prefix.
	AnnotationFinalizer = "apps.holdfast.dev/finalizer"
)
