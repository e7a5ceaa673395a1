package redact

import (
	"path"
	"regexp"
	"strings"
)

// secretWordPattern is what the name of a secret looks like. It takes in more than is secret: what
// is hidden too much can be asked for, what is shown too much cannot be taken back.
const secretWordPattern = secretNamePattern + `|key`

// secretNamePattern is the same where a key may as well be one that something is found by.
const secretNamePattern = `pass|pwd|token|secret|credential|api[_-]?key|private[_-]?key|access[_-]?key`

var (
	secretWordRegexp = regexp.MustCompile(`(?i)` + secretWordPattern)
	// valuePattern is one word, or all between quotes; quotes that do not end hide everything after.
	valuePattern = `(?:\\"(?:[^"\\]|\\[^"])*(?:\\"|$)|"[^"]*(?:"|$)|'[^']*(?:'|$)|\S+)`
	// textRules are what is hidden in any text, and what stays of it.
	textRules = []struct {
		what *regexp.Regexp
		with string
	}{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), Placeholder},
		{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*`), Placeholder}, // a token with a signature
		{regexp.MustCompile(`(?i)\b(bearer|basic) +[\w.~+/=-]{6,}`), "$1 " + Placeholder},
		// Somebody who logs in within an address: https://name:password@host, name:password@tcp(host).
		{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]+@`), "$1" + Placeholder + "@"},
		{regexp.MustCompile(`[^\s:@/"'=]+:[^\s@]+@(tcp|tcp6|unix)\(`), Placeholder + "@$1("},
		// Whoever knows the address of a webhook may use it.
		{regexp.MustCompile(`(?i)(https?://[^\s/"'<>]*hook[^\s/"'<>]*/)[^\s"'<>]+`), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)(https?://[^\s"'<>]*/(?:web)?hooks?/)[^\s"'<>]+`), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)("[^"]*(?:` + secretNamePattern + `)[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"`), `$1"` + Placeholder + `"`},
		{regexp.MustCompile(`(?i)(\\"[^"\\]*(?:` + secretNamePattern + `)[^"\\]*\\"\s*:\s*)\\"(?:[^"\\]|\\[^"])*\\"`), `$1\"` + Placeholder + `\"`},
		{regexp.MustCompile(`(?i)([\w.-]*(?:` + secretWordPattern + `)[\w.-]*=)` + valuePattern), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)((?:^|[\s"'])--?[\w.-]*(?:` + secretNamePattern + `)[\w.-]* +)` + valuePattern), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)(\bidentified (?:with \S+ )?(?:by|as) )` + valuePattern), "$1" + Placeholder},
	}
	// Clients of databases take a password without a space: -pPASSWORD.
	databaseClientRegexp = regexp.MustCompile(`(?i)\b(mysql|mariadb)`)
	shortPasswordRegexp  = regexp.MustCompile(`(^|\s)-p\S+`)
)

// Text hides in a text what looks like a secret: values of words that look like one, who logs
// in within an address, webhooks, keys and tokens.
func Text(s string) string {
	for _, h := range textRules {
		s = h.what.ReplaceAllString(s, h.with)
	}
	if databaseClientRegexp.MatchString(s) {
		s = shortPasswordRegexp.ReplaceAllString(s, "${1}-p"+Placeholder)
	}
	return s
}

// Args hides in a command line what looks like a secret, also when a word and its value are
// two arguments.
func Args(args []string) []string {
	out := make([]string, len(args))
	isDatabaseClient, nextIsSecret := false, false
	for i, a := range args {
		isDatabaseClient = isDatabaseClient || databaseClientRegexp.MatchString(path.Base(a))
		isFlag := strings.HasPrefix(a, "-")
		switch {
		case nextIsSecret && !isFlag:
			out[i] = Placeholder
		case isDatabaseClient && strings.HasPrefix(a, "-p") && len(a) > len("-p"):
			out[i] = "-p" + Placeholder
		default:
			out[i] = Text(a)
		}
		nextIsSecret = isFlag && !strings.Contains(a, "=") && secretWordRegexp.MatchString(a)
	}
	return out
}
