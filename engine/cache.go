package engine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// indexWorkload finds the pods of a workload without a look at all others.
const indexWorkload = "workload"

// Cache is what the cache of a manager must keep for [Setup]: of children and pods only
// ours, of pods only what explains them. No namespaces means all.
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

// workloadOf is the key of a pod in indexWorkload.
func workloadOf(pod client.Object) []string {
	if id := pod.GetLabels()[appsapi.LabelWorkload]; id != "" {
		return []string{id}
	}
	return nil
}
