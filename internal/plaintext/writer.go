package plaintext

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Writer shows characters that a terminal would interpret instead of writing them, except line breaks and tabs. Every
// Write is a complete text.
type Writer struct {
	io.Writer
	// Styles lets colors and styles pass that hide nothing.
	Styles bool
}

// style is a color, bold, dim, or the end of it.
var style = regexp.MustCompile(`^\x1b\[(0|1|2|3[1-6]|9[1-6])?m`)

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write([]byte(w.escape(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *Writer) escape(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r) || unicode.Is(unicode.Zs, r):
			out.WriteString(s[:size])
		case r == '\r' && strings.HasPrefix(s, "\r\n"): // the line break follows
		default:
			if w.Styles {
				if found := style.FindString(s); found != "" {
					out.WriteString(found)
					size = len(found)
					break
				}
			}
			out.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		}
		s = s[size:]
	}
	return out.String()
}
