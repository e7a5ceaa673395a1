package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestBehind sees that a cache that is behind our own write is told from one that is not.
func TestBehind(t *testing.T) {
	m := memory{owners: map[types.UID]map[key]*entry{}}
	k := key{desired.ID{Kind: desired.KindClaim, Name: "data-shop-db-0"}, "shop"}
	state := func(uid types.UID, version string) metav1.Object {
		return &metav1.ObjectMeta{UID: uid, ResourceVersion: version}
	}
	if m.isBehind(k, "us", state("claim", "1")) {
		t.Error("behind a write that was never made")
	}
	m.noteWrite(k, "us", state("claim", "10"))
	for version, want := range map[string]bool{"9": true, "10": false, "11": false} {
		if got := m.isBehind(k, "us", state("claim", version)); got != want {
			t.Errorf("%s is behind 10: %v", version, got)
		}
	}
	if m.isBehind(k, "us", state("another", "9")) {
		t.Error("behind a write to another claim of the name")
	}
}
