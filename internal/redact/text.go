package redact

import (
	"path"
	"regexp"
	"strings"
)

// secretWord is what the name of a secret looks like. It takes in more than is secret: what
// is hidden too much can be asked for, what is shown too much cannot be taken back.
const secretWord = secretName + `|key`

// secretName is the same where a key may as well be one that something is found by.
const secretName = `pass|pwd|token|secret|credential|api[_-]?key|private[_-]?key|access[_-]?key`

var (
	looksSecret = regexp.MustCompile(`(?i)` + secretWord)
	// value is one word, or all between quotes; quotes that do not end hide everything after.
	value = `(?:\\"(?:[^"\\]|\\[^"])*(?:\\"|$)|"[^"]*(?:"|$)|'[^']*(?:'|$)|\S+)`
	// hides are what is hidden in any text, and what stays of it.
	hides = []struct {
		what *regexp.Regexp
		with string
	}{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), Hidden},
		{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*`), Hidden}, // a token with a signature
		{regexp.MustCompile(`(?i)\b(bearer|basic) +[\w.~+/=-]{6,}`), "$1 " + Hidden},
		// Somebody who logs in within an address: https://name:password@host, name:password@tcp(host).
		{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]+@`), "$1" + Hidden + "@"},
		{regexp.MustCompile(`[^\s:@/"'=]+:[^\s@]+@(tcp|tcp6|unix)\(`), Hidden + "@$1("},
		// Whoever knows the address of a webhook may use it.
		{regexp.MustCompile(`(?i)(https?://[^\s/"'<>]*hook[^\s/"'<>]*/)[^\s"'<>]+`), "$1" + Hidden},
		{regexp.MustCompile(`(?i)(https?://[^\s"'<>]*/(?:web)?hooks?/)[^\s"'<>]+`), "$1" + Hidden},
		{regexp.MustCompile(`(?i)("[^"]*(?:` + secretName + `)[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"`), `$1"` + Hidden + `"`},
		{regexp.MustCompile(`(?i)(\\"[^"\\]*(?:` + secretName + `)[^"\\]*\\"\s*:\s*)\\"(?:[^"\\]|\\[^"])*\\"`), `$1\"` + Hidden + `\"`},
		{regexp.MustCompile(`(?i)([\w.-]*(?:` + secretWord + `)[\w.-]*=)` + value), "$1" + Hidden},
		{regexp.MustCompile(`(?i)((?:^|[\s"'])--?[\w.-]*(?:` + secretName + `)[\w.-]* +)` + value), "$1" + Hidden},
		{regexp.MustCompile(`(?i)(\bidentified (?:with \S+ )?(?:by|as) )` + value), "$1" + Hidden},
	}
	// Clients of databases take a password without a space: -pPASSWORD.
	databaseClient = regexp.MustCompile(`(?i)\b(mysql|mariadb)`)
	shortPassword  = regexp.MustCompile(`(^|\s)-p\S+`)
)

// Text hides in a text what looks like a secret: values of words that look like one, who logs
// in within an address, webhooks, keys and tokens.
func Text(s string) string {
	for _, h := range hides {
		s = h.what.ReplaceAllString(s, h.with)
	}
	if databaseClient.MatchString(s) {
		s = shortPassword.ReplaceAllString(s, "${1}-p"+Hidden)
	}
	return s
}

// Args hides in a command line what looks like a secret, also when a word and its value are
// two arguments.
func Args(args []string) []string {
	out := make([]string, len(args))
	client, next := false, false
	for i, a := range args {
		client = client || databaseClient.MatchString(path.Base(a))
		isFlag := strings.HasPrefix(a, "-")
		switch {
		case next && !isFlag:
			out[i] = Hidden
		case client && strings.HasPrefix(a, "-p") && len(a) > len("-p"):
			out[i] = "-p" + Hidden
		default:
			out[i] = Text(a)
		}
		next = isFlag && !strings.Contains(a, "=") && looksSecret.MatchString(a)
	}
	return out
}
