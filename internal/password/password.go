// Package password makes passwords, and says which of others can be used.
package password

import (
	"crypto/rand"
	"strings"
	"unicode"
	"unicode/utf8"
)

// New has 32 characters that need no quotes anywhere.
func New() string { return rand.Text() + rand.Text()[:6] }

// InvalidReason is what keeps programs from reading a password alike; "" for nothing. Shells drop the line break at its end,
// which whoever wrote it with echo does not know of; variables end at a NUL, and are text.
func InvalidReason(p string) string {
	switch {
	case !utf8.ValidString(p):
		return "bytes that are no text (UTF-8)"
	case strings.ContainsAny(p, "\r\n"):
		return "a line break, as echo appends one and printf does not"
	case strings.ContainsFunc(p, unicode.IsControl):
		return "a control character"
	}
	return ""
}
