package apply

import (
	"hash/maphash"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var seed = maphash.MakeSeed()

// metadataHash hashes the metadata that configurations are rendered from or compared with. Status
// changes do not affect the hash.
func metadataHash(obj client.Object) uint64 {
	type metadataItem struct{ section, key, value string }
	type reference struct {
		apiVersion, kind, name         string
		uid                            types.UID
		controller, blockOwnerDeletion bool
	}
	var sum uint64 // a sum does not depend on the order of map entries
	for k, v := range obj.GetLabels() {
		sum += maphash.Comparable(seed, metadataItem{"labels", k, v})
	}
	for k, v := range obj.GetAnnotations() {
		sum += maphash.Comparable(seed, metadataItem{"annotations", k, v})
	}
	for _, r := range obj.GetOwnerReferences() {
		sum += maphash.Comparable(seed, reference{r.APIVersion, r.Kind, r.Name, r.UID, ptr.Deref(r.Controller, false), ptr.Deref(r.BlockOwnerDeletion, false)})
	}
	if obj.GetDeletionTimestamp() != nil {
		sum += maphash.Comparable(seed, metadataItem{section: "deletionTimestamp"})
	}
	return sum
}

// generation returns metadata.generation, or 0 for kinds without generations. Whether a
// HorizontalPodAutoscaler has a generation depends on the version of Kubernetes.
func generation(live client.Object) int64 {
	switch live.(type) {
	case *corev1.Service, *corev1.ConfigMap, *autoscalingv2.HorizontalPodAutoscaler:
		return 0
	}
	return live.GetGeneration()
}
