package inspect

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// Kinds of unmanaged applications, which Holdfast does not create.
const (
	// KindHelmRelease is a Helm release.
	KindHelmRelease = "HelmRelease"
	// KindGroup is a group of objects of a namespace with the same label app.kubernetes.io/part-of.
	KindGroup = "Group"
)

// Annotations that Helm sets on all objects of a release.
const (
	annotationRelease          = "meta.helm.sh/release-name"
	annotationReleaseNamespace = "meta.helm.sh/release-namespace"
)

// Membership returns the application that an object belongs to: a managed application, or else a Helm
// release, or else a group. Pods and other objects created by controllers usually have no membership of
// their own; they belong to the application of their controller.
func Membership(obj metav1.Object) (kind, namespace, name string, ok bool) {
	if kind, name, ok = managedMembership(obj); ok {
		return kind, obj.GetNamespace(), name, true
	}
	if isManaged(obj) { // a pod has no label for the kind of its application
		return "", "", "", false
	}
	a := obj.GetAnnotations()
	// Anyone can write the name of another namespace into the annotation; only administrators write cluster-scoped objects.
	release, inNamespace := a[annotationRelease], a[annotationReleaseNamespace]
	if release != "" && inNamespace != "" && (obj.GetNamespace() == inNamespace || obj.GetNamespace() == "") {
		return KindHelmRelease, inNamespace, release, true
	}
	// A cluster-scoped object could belong to any group of that name.
	partOf := obj.GetLabels()[appsapi.LabelPartOf]
	if partOf == "" || obj.GetNamespace() == "" || hasCopiedLabels(obj) {
		return "", "", "", false
	}
	return KindGroup, obj.GetNamespace(), partOf, true
}

// isManaged reports whether an object belongs to any managed application.
func isManaged(obj metav1.Object) bool {
	return obj.GetLabels()[appsapi.LabelManagedBy] == appsapi.ManagedBy
}

// managedMembership checks the owner references first, because label values can be truncated names.
// Children without an owner reference and retained data only have the labels.
func managedMembership(obj metav1.Object) (kind, name string, ok bool) {
	for _, ref := range obj.GetOwnerReferences() {
		if k := kindOfOwner(ref); k != nil {
			return k.Name(), ref.Name, true
		}
	}
	l := obj.GetLabels()
	kind, name = l[appkind.KeysOf(obj).OwnerKind], l[appsapi.LabelInstance]
	if !isManaged(obj) || kind == "" || name == "" {
		return "", "", false
	}
	return kind, name, true
}

// kindOfOwner returns the application kind of an owner, or nil.
func kindOfOwner(ref metav1.OwnerReference) *appkind.Kind {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil
	}
	return appkind.Lookup(gv.WithKind(ref.Kind).GroupKind())
}

// hasCopiedLabels reports whether a built-in controller created an object: such controllers copy the
// labels of a template or a Service, so the labels do not express membership.
func hasCopiedLabels(obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && slices.Contains([]string{"v1", "apps/v1", "batch/v1"}, ref.APIVersion)
}
