package engine

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestKeptInOrder sees that status lists data in one order, whichever a cache has.
func TestKeptInOrder(t *testing.T) {
	claim := func(name string) desired.Kept {
		return desired.Kept{ID: desired.ID{Kind: desired.KindClaim, Name: name}}
	}
	secret := desired.Kept{ID: desired.ID{Kind: desired.KindSecret, Name: "shop-db-auth"}}
	for _, kept := range [][]desired.Kept{
		{secret, claim("data-shop-db-1"), claim("data-shop-db-0")},
		{claim("data-shop-db-0"), secret, claim("data-shop-db-1")},
	} {
		var got []string
		for _, k := range desired.InOrder(kept) {
			got = append(got, k.Name)
		}
		if want := "data-shop-db-0 data-shop-db-1 shop-db-auth"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
}
