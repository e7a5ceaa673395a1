package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	for name, want := range map[string][]string{
		"splitCache":     {"split", "cache"},
		"newEars":        {"new", "ears"},
		"HTTPServer":     {"http", "server"},
		"order_film":     {"order", "film"},
		"toURL":          {"to", "url"},
		"years":          {"years"},
		"TestEarsListen": {"test", "ears", "listen"},
	} {
		if diff := cmp.Diff(want, split(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCheckFile(t *testing.T) {
	banned := parseWords("# comment\nears: eventReader\nward: retryLimiter # why\n")
	source := "package fine\n\n// ears in a comment are fine\ntype newEars struct{ forward, years int }\n\nfunc f() { _ = \"ward\" }\n"
	got, err := checkFile("dir/ward_test.go", source, banned)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`dir/ward_test.go: ward_test: do not use "ward"; use retryLimiter`,
		`dir/ward_test.go:4:6: newEars: do not use "ears"; use eventReader`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
