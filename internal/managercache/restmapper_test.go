package managercache

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-dev/holdfast/internal/childkind"
)

// TestRESTMapperKnowsLists checks the scope of kinds and list kinds, which a cache that is limited
// to namespaces needs.
func TestRESTMapperKnowsLists(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper, err := NewRESTMapper(scheme)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range childkind.Required {
		for _, obj := range []runtime.Object{c.Object, c.NewList()} {
			namespaced, err := apiutil.IsObjectNamespaced(obj, scheme, mapper)
			if err != nil || !namespaced {
				t.Errorf("%T: namespaced %t, %v", obj, namespaced, err)
			}
		}
	}
}
