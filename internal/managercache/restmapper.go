package managercache

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-dev/holdfast/internal/childkind"
)

// NewRESTMapper returns a static mapper for the given kinds and all kinds of the engine. Discovery
// would fail, and end the program, if the API server were unreachable at startup.
func NewRESTMapper(scheme *runtime.Scheme, kinds ...client.Object) (meta.RESTMapper, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	all := append(childkind.All.Cached(), kinds...)
	for _, c := range childkind.Optional {
		all = append(all, c.Object)
	}
	all = append(all, &corev1.Event{}) // read, but not cached
	for _, obj := range all {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			return nil, fmt.Errorf("map a kind to its resource: %w", err)
		}
		mapper.Add(gvk, meta.RESTScopeNamespace)
		// A cache that is limited to namespaces also maps list kinds.
		mapper.Add(gvk.GroupVersion().WithKind(gvk.Kind+"List"), meta.RESTScopeNamespace)
	}
	return mapper, nil
}
