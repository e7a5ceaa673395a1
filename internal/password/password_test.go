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

func TestInvalidReason(t *testing.T) {
	for p, want := range map[string]string{
		"":                       "",
		"it's \"odd\" \\ $x ä 漢": "",
		"from echo\n":            "a line break (use printf instead of echo)",
		"a\r\nb":                 "a line break (use printf instead of echo)",
		"a\x00b":                 "a control character",
		"tab\t":                  "a control character",
		"\xff\xfe":               "bytes that are not valid UTF-8",
	} {
		if got := InvalidReason(p); got != want {
			t.Errorf("%q: got %q, want %q", p, got, want)
		}
	}
}
