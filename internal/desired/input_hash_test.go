package desired

import (
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestInputHash changes each input of the children.
func TestInputHash(t *testing.T) {
	owner := Owner{Keys: appsapi.DefaultKeys, Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "a", Generation: 1}
	components := func(image string) []ExpandedComponent {
		return ExpandComponents([]appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: appsapi.ContainerSpec{Image: image}}}}})
	}
	contents := func(hash string) ClusterState {
		return ClusterState{RefStates: RefStates{{Kind: "Secret", Name: "s"}: {UID: "u", ResourceVersion: "1", Hash: hash}}}
	}
	basis := inputHash(owner, components("nginx"), contents("x"))
	if basis == 0 || basis != inputHash(owner, components("nginx"), contents("x")) {
		t.Error("equal inputs have different hashes")
	}
	other := owner
	other.UID = "b"
	for what, got := range map[string]uint64{
		"another owner":   inputHash(other, components("nginx"), contents("x")),
		"another image":   inputHash(owner, components("httpd"), contents("x")),
		"another content": inputHash(owner, components("nginx"), contents("y")),
		"no references":   inputHash(owner, components("nginx"), ClusterState{}),
	} {
		if got == basis || got == 0 {
			t.Errorf("%s: the hash is still %d", what, got)
		}
	}
	for what, known := range map[string]ClusterState{"data": {Retained: make([]RetainedObject, 1)}, "orphaned pods": {OrphanedReplicas: map[string]int32{"db": 1}}} {
		if got := inputHash(owner, components("nginx"), known); got != 0 {
			t.Errorf("%s: got hash %d, want 0", what, got)
		}
	}
	for _, child := range Build(owner, components("nginx"), ClusterState{})[0].Children {
		if child.InputHash == 0 {
			t.Errorf("%s has no input hash", child.Name)
		}
	}
}
