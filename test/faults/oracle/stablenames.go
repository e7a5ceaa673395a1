package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// stableNames gives every object a name that is equal in every run: a ReplicaSet is named after its Deployment and
// revision, a revision after its application, a pod after its owner and its index.
func stableNames(objects []*unstructured.Unstructured) map[types.UID]string {
	names := map[types.UID]string{}
	pods := map[string][]*unstructured.Unstructured{}
	for _, o := range objects {
		if o.GetKind() == "Pod" {
			continue
		}
		names[o.GetUID()] = o.GetKind() + "/" + stableName(o)
	}
	for _, o := range objects {
		if o.GetKind() == "Pod" {
			owner := names[controllerOf(o).UID]
			pods[owner] = append(pods[owner], o)
		}
	}
	for owner, siblings := range pods {
		slices.SortFunc(siblings, func(a, b *unstructured.Unstructured) int {
			return cmp.Compare(a.GetName(), b.GetName())
		})
		for i, pod := range siblings {
			names[pod.GetUID()] = fmt.Sprintf("Pod/%s/%d", owner, i)
		}
	}
	return names
}

// stableName returns the name of an object without its generated part.
func stableName(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "ReplicaSet":
		return controllerOf(o).Name + "@" + o.GetAnnotations()["deployment.kubernetes.io/revision"]
	case "ControllerRevision":
		return fmt.Sprintf("%s@%v", controllerOf(o).Name, o.Object["revision"])
	}
	return o.GetName()
}
