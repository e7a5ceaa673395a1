package managercache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// NewRESTMapper knows the resources of the given kinds and of everything the engine reads and
// writes, without asking the API server. With it a manager can be made while there is no
// API server, and waits for one; asking would fail and end the program.
func NewRESTMapper(scheme *runtime.Scheme, kinds ...client.Object) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	all := cachedObjects(kinds)
	for _, c := range OptionalChildKinds {
		all = append(all, c.Object)
	}
	all = append(all, &corev1.Event{}) // read, and not cached
	for _, obj := range all {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			return nil, fmt.Errorf("map a kind to its resource: %w", err)
		}
		mapper.Add(gvk, meta.RESTScopeNamespace)
		// A cache of some namespaces asks this of lists too.
		mapper.Add(gvk.GroupVersion().WithKind(gvk.Kind+"List"), meta.RESTScopeNamespace)
	}
	return mapper, nil
}

// cachedObjects is what a manager of these kinds caches.
func cachedObjects(kinds []client.Object) []client.Object {
	var all []client.Object
	for _, c := range ChildKinds {
		all = append(all, c.Object)
	}
	all = append(all, PodObject, ClaimObject)
	for _, kind := range ConfigRefKinds {
		all = append(all, PartialMetadata(kind))
	}
	return append(all, kinds...)
}
