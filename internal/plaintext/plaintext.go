// Package plaintext makes texts of other programs safe to show. Servers, containers and users choose such texts, and a
// status, an event or a terminal must not follow control characters in them.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const ellipsis = "..."

// Line returns a text as one line of at most n bytes, without characters that a terminal interprets. It is idempotent,
// so a truncated copy of a text leads to the same result as the text itself.
func Line(s string, n int) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?")))
	if len(s) <= n {
		return s
	}
	n -= len(ellipsis)
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}
