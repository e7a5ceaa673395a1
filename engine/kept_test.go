package engine

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestRetainedObjectsAreSorted sees that status lists data in one order, whichever a cache has.
func TestRetainedObjectsAreSorted(t *testing.T) {
	claim := func(name string) desired.RetainedObject {
		return desired.RetainedObject{ID: desired.ID{Kind: desired.KindClaim, Name: name}}
	}
	secret := desired.RetainedObject{ID: desired.ID{Kind: desired.KindSecret, Name: "shop-db-auth"}}
	for _, kept := range [][]desired.RetainedObject{
		{secret, claim("data-shop-db-1"), claim("data-shop-db-0")},
		{claim("data-shop-db-0"), secret, claim("data-shop-db-1")},
	} {
		var got []string
		for _, k := range desired.SortRetained(kept) {
			got = append(got, k.Name)
		}
		if want := "data-shop-db-0 data-shop-db-1 shop-db-auth"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}
