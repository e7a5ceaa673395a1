package v1alpha1_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestTypesHaveNoInternalFields checks that every field is part of the serialized object. Internal state
// belongs to types of the engine.
func TestTypesHaveNoInternalFields(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsapi.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pkg := reflect.TypeFor[appsapi.AppStack]().PkgPath()
	seen := map[reflect.Type]bool{}
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			check(typ.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if typ.PkgPath() != pkg || seen[typ] {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == "-" || !f.IsExported() || name == "" && !f.Anonymous {
				t.Errorf("%s.%s is not serialized", typ, f.Name)
			}
			check(f.Type)
		}
	}
	for _, typ := range scheme.KnownTypes(appsapi.GroupVersion) {
		check(typ)
	}
	if !seen[reflect.TypeFor[appsapi.Credential]()] {
		t.Error("the walk does not reach the types of components")
	}
}
