package desired

import (
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestBasis changes one thing after the other that children are made of.
func TestBasis(t *testing.T) {
	owner := Owner{Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "a", Generation: 1}
	components := func(image string) []appsapi.Component {
		return []appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{ContainerSpec: appsapi.ContainerSpec{Image: image}}}}}
	}
	contents := func(hash string) Known {
		return Known{Contents: Contents{{Kind: "Secret", Name: "s"}: {UID: "u", ResourceVersion: "1", Hash: hash}}}
	}
	basis := basisOf(owner, components("nginx"), contents("x"))
	if basis == 0 || basis != basisOf(owner, components("nginx"), contents("x")) {
		t.Error("the same has not the same basis")
	}
	other := owner
	other.UID = "b"
	for what, got := range map[string]uint64{
		"another owner":     basisOf(other, components("nginx"), contents("x")),
		"another image":     basisOf(owner, components("httpd"), contents("x")),
		"another content":   basisOf(owner, components("nginx"), contents("y")),
		"nothing refers to": basisOf(owner, components("nginx"), Known{}),
	} {
		if got == basis || got == 0 {
			t.Errorf("%s: the basis is %d, as it was", what, got)
		}
	}
	for what, known := range map[string]Known{"data": {Kept: make([]Kept, 1)}, "pods without a set": {Running: map[string]int32{"db": 1}}} {
		if got := basisOf(owner, components("nginx"), known); got != 0 {
			t.Errorf("%s: the basis is %d, although it is not all that is known", what, got)
		}
	}
	for _, child := range For(owner, components("nginx"), Known{})[0].Children {
		if child.Basis == 0 {
			t.Errorf("%s has no basis", child.Name)
		}
	}
}
