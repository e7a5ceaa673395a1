package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// stableNames gives every object a name that is the same in every run. A ReplicaSet is called
// after its Deployment and the revision, a revision after its application, a pod after what made it and its place among its
// equals.
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

// stableName is the name of an object without what was drawn by chance.
func stableName(o *unstructured.Unstructured) string {
	switch o.GetKind() {
	case "ReplicaSet":
		return controllerOf(o).Name + "@" + o.GetAnnotations()["deployment.kubernetes.io/revision"]
	case "ControllerRevision":
		return fmt.Sprintf("%s@%v", controllerOf(o).Name, o.Object["revision"])
	}
	return o.GetName()
}
