package desired

import (
	"strings"
	"testing"
)

// TestRetainedObjectsAreSorted: the order in the status does not depend on the order of a cache.
func TestRetainedObjectsAreSorted(t *testing.T) {
	claim := func(name string) RetainedObject {
		return RetainedObject{ID: ID{Kind: KindClaim, Name: name}}
	}
	secret := RetainedObject{ID: ID{Kind: KindSecret, Name: "shop-db-auth"}}
	for _, kept := range [][]RetainedObject{
		{secret, claim("data-shop-db-1"), claim("data-shop-db-0")},
		{claim("data-shop-db-0"), secret, claim("data-shop-db-1")},
	} {
		var got []string
		for _, k := range SortRetained(kept) {
			got = append(got, k.Name)
		}
		if want := "data-shop-db-0 data-shop-db-1 shop-db-auth"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}
