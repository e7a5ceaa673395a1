// Package password generates passwords and validates passwords of users.
package password

import (
	"crypto/rand"
	"strings"
	"unicode"
	"unicode/utf8"
)

// New returns 32 characters that need no quoting anywhere.
func New() string { return rand.Text() + rand.Text()[:6] }

// InvalidReason returns why programs may read a password differently, or "". Shells drop a trailing line
// break, which echo adds; environment variables end at a NUL and must be text.
func InvalidReason(p string) string {
	switch {
	case !utf8.ValidString(p):
		return "bytes that are not valid UTF-8"
	case strings.ContainsAny(p, "\r\n"):
		return "a line break (use printf instead of echo)"
	case strings.ContainsFunc(p, unicode.IsControl):
		return "a control character"
	}
	return ""
}
