package explain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of foreign texts. What is beyond them is neither read nor kept.
const (
	maxText     = 4096 // what is searched for known words
	maxEvidence = 1024
)

const ellipsis = "..."

// sanitize makes one line of at most n bytes of a text. What it returns it leaves alone the
// next time, so that a text that was cut to be kept reads like the whole.
func sanitize(s string, n int) string {
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

// abbreviate leaves out the middle of a long name: its beginning and its end tell more.
func abbreviate(s string) string {
	const head, tail = 80, 60
	if len(s) <= head+tail+len(ellipsis) {
		return s
	}
	return s[:head] + ellipsis + s[len(s)-tail:]
}

// lastLine is the last line of a text that has something in it.
func lastLine(s string) string {
	s = strings.TrimRightFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) })
	return sanitize(s[strings.LastIndexByte(s, '\n')+1:], maxEvidence)
}

// evidence returns the texts that say something.
func evidence(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t = sanitize(t, maxEvidence); t != "" {
			out = append(out, t)
		}
	}
	return out
}
