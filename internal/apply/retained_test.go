package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestStaleCacheIsDetected checks whether a cached object is older than our own write.
func TestStaleCacheIsDetected(t *testing.T) {
	cache := childCache{owners: map[types.UID]map[key]*entry{}}
	k := key{desired.ID{Kind: desired.KindClaim, Name: "data-shop-db-0"}, "shop"}
	objectMeta := func(uid types.UID, version string) metav1.Object {
		return &metav1.ObjectMeta{UID: uid, ResourceVersion: version}
	}
	if cache.isCacheStale(k, "us", objectMeta("claim", "1")) {
		t.Error("stale without a write")
	}
	cache.recordWrite(k, "us", objectMeta("claim", "10"))
	for version, want := range map[string]bool{"9": true, "10": false, "11": false} {
		if got := cache.isCacheStale(k, "us", objectMeta("claim", version)); got != want {
			t.Errorf("version %s is stale: %v", version, got)
		}
	}
	if cache.isCacheStale(k, "us", objectMeta("another", "9")) {
		t.Error("stale because of a write to a deleted claim of the name")
	}
}
