package inspect

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The kinds of applications that are not ours.
const (
	// KindHelmRelease is what Helm installed under one name.
	KindHelmRelease = "HelmRelease"
	// KindGroup are the objects of a namespace that say that they are part of the same.
	KindGroup = "Group"
)

// Annotations that Helm puts on everything that it installs.
const (
	annotationRelease          = "meta.helm.sh/release-name"
	annotationReleaseNamespace = "meta.helm.sh/release-namespace"
)

// Membership is the application that an object says it belongs to: one of ours, or else a
// Helm release, or else a group. Pods, and what else controllers make, most often do not say
// it: they belong where their controller does.
func Membership(obj metav1.Object) (kind, namespace, name string, ok bool) {
	if kind, name, ok = managedMembership(obj); ok {
		return kind, obj.GetNamespace(), name, true
	}
	if isManaged(obj) { // a pod, which does not say of what kind its application is
		return "", "", "", false
	}
	a := obj.GetAnnotations()
	if a[annotationRelease] != "" && a[annotationReleaseNamespace] != "" {
		return KindHelmRelease, a[annotationReleaseNamespace], a[annotationRelease], true
	}
	// What is in no namespace could be of any group of that name.
	partOf := obj.GetLabels()[appsapi.LabelPartOf]
	if partOf == "" || obj.GetNamespace() == "" || hasCopiedLabels(obj) {
		return "", "", "", false
	}
	return KindGroup, obj.GetNamespace(), partOf, true
}

// isManaged says whether an object is of an application of ours, whichever that is.
func isManaged(obj metav1.Object) bool {
	return obj.GetLabels()[appsapi.LabelManagedBy] == appsapi.ManagedBy
}

// managedMembership reads the owners of an object first: labels are short, and names are not.
// Children whose ownerReference was taken off, and data that is kept, have the labels alone.
func managedMembership(obj metav1.Object) (kind, name string, ok bool) {
	for _, ref := range obj.GetOwnerReferences() {
		if isHoldfastKind(ref.APIVersion, ref.Kind) {
			return ref.Kind, ref.Name, true
		}
	}
	l := obj.GetLabels()
	kind, name = l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance]
	if !isManaged(obj) || kind == "" || name == "" {
		return "", "", false
	}
	return kind, name, true
}

// holdfastKinds are the kinds of applications of ours.
var holdfastKinds = []string{"AppService", "AppStack", "CloudManager"}

func isHoldfastKind(apiVersion, kind string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && gv.Group == appsapi.GroupVersion.Group && slices.Contains(holdfastKinds, kind)
}

// hasCopiedLabels says whether a controller of Kubernetes made an object: it copies the labels of a
// template, or of a Service, so they are not the word of who wrote the object.
func hasCopiedLabels(obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && slices.Contains([]string{"v1", "apps/v1", "batch/v1"}, ref.APIVersion)
}
