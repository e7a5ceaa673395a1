package engine

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

const (
	// indexWorkload finds the pods of a workload without a look at all others.
	indexWorkload = "workload"
	// indexOwner finds the children of an application.
	indexOwner = "owner"
)

// Cache is what the cache of a manager must keep for [Setup]: of children and pods only
// ours, of pods only what explains them, of ConfigMaps and Secrets only that they exist.
// No namespaces means all.
func Cache(namespaces ...string) ctrlcache.Options {
	ours := labels.SelectorFromSet(labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy})
	shared := true // nobody changes what comes from the cache, so it need not be copied
	o := ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{
			pod: {Label: ours, UnsafeDisableDeepCopy: &shared, Transform: projectPod},
		},
		DefaultTransform: ctrlcache.TransformStripManagedFields(),
	}
	for _, c := range children {
		o.ByObject[c.object] = ctrlcache.ByObject{Label: ours, UnsafeDisableDeepCopy: &shared}
	}
	o.ByObject[revisionKind.object] = ctrlcache.ByObject{Label: ours, UnsafeDisableDeepCopy: &shared, Transform: projectRevision}
	for _, kind := range sources {
		o.ByObject[sourceMetadata(kind)] = ctrlcache.ByObject{UnsafeDisableDeepCopy: &shared, Transform: projectSource}
	}
	if len(namespaces) > 0 {
		o.DefaultNamespaces = map[string]ctrlcache.Config{}
		for _, ns := range namespaces {
			o.DefaultNamespaces[ns] = ctrlcache.Config{}
		}
	}
	return o
}

func projectPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		return explain.Project(pod), nil
	}
	return obj, nil
}

// projectRevision drops the spec that a revision remembers: only people read it.
func projectRevision(obj any) (any, error) {
	if r, ok := obj.(*appsv1.ControllerRevision); ok {
		r.Data.Raw = nil
		r.ManagedFields = nil
	}
	return obj, nil
}

// projectSource keeps name, UID and resourceVersion.
func projectSource(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ObjectMeta = metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}
	}
	return obj, nil
}

// ownersOf are the keys of a child in indexOwner: whose it is by its reference, and by its
// label, either of which somebody may have taken away.
func ownersOf(child client.Object) []string {
	var owners []string
	if ref := metav1.GetControllerOfNoCopy(child); ref != nil {
		owners = append(owners, string(ref.UID))
	}
	if uid := child.GetLabels()[appsapi.LabelOwnerUID]; uid != "" && !slices.Contains(owners, uid) {
		owners = append(owners, uid)
	}
	return owners
}

// workloadOf is the key of a pod in indexWorkload.
func workloadOf(pod client.Object) []string {
	if id := pod.GetLabels()[appsapi.LabelWorkload]; id != "" {
		return []string{id}
	}
	return nil
}
