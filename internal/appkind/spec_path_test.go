package appkind_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

func TestComponentsKnowTheirPathInTheSpec(t *testing.T) {
	stack := &appsapi.AppStack{Spec: appsapi.AppStackSpec{Components: []appsapi.Component{
		{Name: "web", Service: &appsapi.ServiceComponent{}},
		{Name: "migrate", Job: &appsapi.JobComponent{}},
		{Name: "cache", Stateful: &appsapi.StatefulComponent{}},
		{Name: "db", Database: &appsapi.DatabaseComponent{Version: "11.8"}},
	}}}
	want := map[string][]string{
		"AppService":   {"spec"},
		"AppStack":     {"spec.components[cache].stateful", "spec.components[db].database", "spec.components[migrate].job", "spec.components[web].service"},
		"CloudManager": {"spec.db.statefulSet", "spec.front.deployment", "spec.identity.deployment"},
	}
	got := map[string][]string{}
	for _, app := range []appkind.Application{&appsapi.AppService{}, stack, &appsapi.CloudManager{}} {
		paths := map[string]bool{}
		for _, c := range appkind.Components(app) {
			paths[c.SpecPath] = true
		}
		got[appkind.Of(app).Kind] = slices.Sorted(maps.Keys(paths))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
