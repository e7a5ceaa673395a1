package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestDatabaseServersAreAddedToAnyKind checks that any kind can declare databases, and the engine
// adds their servers.
func TestDatabaseServersAreAddedToAnyKind(t *testing.T) {
	given := []Component{{Name: "web", Service: &appsapi.ServiceComponent{}}, {Name: "db", Database: &appsapi.DatabaseComponent{Version: "11.8"}}}
	kind := Kind[*appsapi.AppStack]{Components: func(*appsapi.AppStack) []Component { return given }}.untyped(schema.GroupVersionKind{})
	got := kind.Components(&appsapi.AppStack{})
	if got[0].Stateful != nil || got[1].Stateful == nil || got[1].Stateful.Image != "mariadb:11.8" || given[1].Stateful != nil {
		t.Errorf("got %+v of %+v", got, given)
	}
}
