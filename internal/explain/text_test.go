package explain

import (
	"strings"
	"testing"
)

func TestAbbreviate(t *testing.T) {
	long := "registry.example.com/" + strings.Repeat("x", 500) + ":1.2.3"
	got := abbreviate(long)
	if len(got) != 143 || !strings.HasPrefix(got, "registry.example.com/x") || !strings.HasSuffix(got, "x:1.2.3") {
		t.Errorf("abbreviated name %q, want beginning and end in 143 bytes", got)
	}
	if got := abbreviate("shop/web:2"); got != "shop/web:2" {
		t.Errorf("abbreviated name %q, want it unchanged", got)
	}
}

func TestLastLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"empty":               {"", ""},
		"empty lines":         {"\n \r\n\n", ""},
		"one line":            {"panic: boom", "panic: boom"},
		"several lines":       {"goroutine 1\n  panic: boom\r\n\n", "panic: boom"},
		"invisible last line": {"panic: boom\n\x00\u200b\n", "panic: boom"},
		"long line":           {"first\n" + strings.Repeat("x", 2000), strings.Repeat("x", 1021) + "..."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := lastLine(tc.text)
			if got != tc.want {
				t.Errorf("last line %q, want %q", got, tc.want)
			}
			if again := lastLine(got); again != got {
				t.Errorf("after the second call %q, want %q", again, got)
			}
		})
	}
}
