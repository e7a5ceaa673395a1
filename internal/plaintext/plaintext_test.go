package plaintext

import "testing"

func TestLine(t *testing.T) {
	cases := map[string]struct {
		text string
		n    int
		want string
	}{
		"empty":                 {"", 8, ""},
		"fits":                  {"12345678", 8, "12345678"},
		"too long":              {"123456789", 8, "12345..."},
		"no partial characters": {"1234é6789", 8, "1234..."},
		"line breaks and tabs":  {" a\nb\tc\r\n", 8, "a b c"},
		"control characters":    {"a\x1b[2Jb", 8, "a [2Jb"},
		"invisible characters":  {"a\u200b\u202eb", 8, "a  b"},
		"invalid UTF-8":         {"a\xff\xfeb", 8, "a?b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Line(tc.text, tc.n)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if again := Line(got, tc.n); again != got {
				t.Errorf("after the second call %q, want %q", again, got)
			}
		})
	}
}
