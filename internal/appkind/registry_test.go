package appkind

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestEveryApplicationTypeIsRegistered(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsapi.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, typ := range scheme.KnownTypes(appsapi.GroupVersion) {
		app, ok := reflect.New(typ).Interface().(Application)
		if !ok {
			continue // a list or a type of apimachinery
		}
		found++
		kind := Lookup(schema.GroupKind{Group: appsapi.GroupName, Kind: name})
		if kind == nil {
			t.Errorf("%s is an application and not registered", name)
			continue
		}
		if Of(app) != kind || reflect.TypeOf(kind.New()) != reflect.TypeOf(app) {
			t.Errorf("%s: New returns a %T", name, kind.New())
		}
		list, _, err := scheme.ObjectKinds(kind.NewList())
		if err != nil || list[0].Kind != name+"List" {
			t.Errorf("%s: NewList returns %v, %v", name, list, err)
		}
		for _, alias := range append(kind.Aliases, kind.Aliases[0]+"."+appsapi.GroupName) {
			if got, err := ByAlias(alias); got != kind {
				t.Errorf("%s is %v, %v", alias, got, err)
			}
		}
	}
	if found != len(Builtin) {
		t.Errorf("%d applications in the scheme, %d registered", found, len(Builtin))
	}
}
