package password

import (
	"regexp"
	"testing"
)

func TestNew(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		p := New()
		if !regexp.MustCompile("^[A-Za-z0-9]{32}$").MatchString(p) || seen[p] {
			t.Fatalf("got %q", p)
		}
		seen[p] = true
	}
}
