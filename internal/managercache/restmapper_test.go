package managercache

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// A cache that is limited to namespaces asks for the scope of what it gets, and of what it
// lists.
func TestRESTMapperKnowsLists(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper, err := NewRESTMapper(scheme)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ChildKinds {
		for _, obj := range []runtime.Object{c.Object, c.NewList()} {
			namespaced, err := apiutil.IsObjectNamespaced(obj, scheme, mapper)
			if err != nil || !namespaced {
				t.Errorf("%T: namespaced %t, %v", obj, namespaced, err)
			}
		}
	}
}
