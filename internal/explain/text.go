package explain

import (
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// Limits for texts of other programs. The rest is neither read nor kept.
const (
	maxText     = 4096 // searched for known patterns
	maxEvidence = 1024
)

const ellipsis = "..."

// abbreviate removes the middle of a long name: the beginning and the end identify it better.
func abbreviate(s string) string {
	const head, tail = 80, 60
	if len(s) <= head+tail+len(ellipsis) {
		return s
	}
	return s[:head] + ellipsis + s[len(s)-tail:]
}

// lastLine returns the last non-empty line of a text.
func lastLine(s string) string {
	s = strings.TrimRightFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
	return plaintext.Line(s[strings.LastIndexByte(s, '\n')+1:], maxEvidence)
}

// evidence returns the sanitized texts without the empty ones.
func evidence(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t = plaintext.Line(t, maxEvidence); t != "" {
			out = append(out, t)
		}
	}
	return out
}
