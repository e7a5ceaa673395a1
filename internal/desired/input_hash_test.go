package desired

import (
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestInputHash changes one thing after the other that children are made of.
func TestInputHash(t *testing.T) {
	owner := Owner{Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "a", Generation: 1}
	components := func(image string) []appsapi.Component {
		return []appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: appsapi.ContainerSpec{Image: image}}}}}
	}
	contents := func(hash string) ClusterState {
		return ClusterState{RefStates: RefStates{{Kind: "Secret", Name: "s"}: {UID: "u", ResourceVersion: "1", Hash: hash}}}
	}
	basis := inputHash(owner, components("nginx"), contents("x"))
	if basis == 0 || basis != inputHash(owner, components("nginx"), contents("x")) {
		t.Error("the same has not the same basis")
	}
	other := owner
	other.UID = "b"
	for what, got := range map[string]uint64{
		"another owner":     inputHash(other, components("nginx"), contents("x")),
		"another image":     inputHash(owner, components("httpd"), contents("x")),
		"another content":   inputHash(owner, components("nginx"), contents("y")),
		"nothing refers to": inputHash(owner, components("nginx"), ClusterState{}),
	} {
		if got == basis || got == 0 {
			t.Errorf("%s: the basis is %d, as it was", what, got)
		}
	}
	for what, known := range map[string]ClusterState{"data": {Retained: make([]RetainedObject, 1)}, "pods without a set": {OrphanedReplicas: map[string]int32{"db": 1}}} {
		if got := inputHash(owner, components("nginx"), known); got != 0 {
			t.Errorf("%s: the basis is %d, although it is not all that is known", what, got)
		}
	}
	for _, child := range Build(owner, components("nginx"), ClusterState{})[0].Children {
		if child.InputHash == 0 {
			t.Errorf("%s has no basis", child.Name)
		}
	}
}
