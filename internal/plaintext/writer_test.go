package plaintext

import (
	"errors"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	for in, want := range map[string]struct{ plain, styled string }{
		"shop  Ready\tgrün 日本\u00a0x\n": {"shop  Ready\tgrün 日本\u00a0x\n", "shop  Ready\tgrün 日本\u00a0x\n"},
		"\x1b[32mHealthy\x1b[0m":        {`\x1b[32mHealthy\x1b[0m`, "\x1b[32mHealthy\x1b[0m"},
		"\x1b[m\x1b[8mhidden":           {`\x1b[m\x1b[8mhidden`, "\x1b[m" + `\x1b[8mhidden`},
		"\x1b]0;title\x07\x1b[2J":       {`\x1b]0;title\a\x1b[2J`, `\x1b]0;title\a\x1b[2J`},
		"over\rwritten\r\n\b":           {`over\rwritten` + "\n" + `\b`, `over\rwritten` + "\n" + `\b`},
		"\u009b2J\u202eabc\u200b":       {`\u009b2J\u202eabc\u200b`, `\u009b2J\u202eabc\u200b`},
		"not UTF-8 \xff\xfe \ufffd":     {`not UTF-8 \xff\xfe ` + "\ufffd", `not UTF-8 \xff\xfe ` + "\ufffd"},
	} {
		for styles, want := range map[bool]string{false: want.plain, true: want.styled} {
			var out strings.Builder
			n, err := (&Writer{&out, styles}).Write([]byte(in))
			if err != nil || n != len(in) {
				t.Errorf("wrote %d of %d bytes: %v", n, len(in), err)
			}
			if out.String() != want {
				t.Errorf("styles %v: %q became %q, want %q", styles, in, out.String(), want)
			}
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterReportsErrors(t *testing.T) {
	if n, err := (&Writer{Writer: fullDisk{}}).Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("got %d, %v", n, err)
	}
}
