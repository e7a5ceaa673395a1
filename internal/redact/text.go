package redact

import (
	"path"
	"regexp"
	"strings"
)

// secretWordPattern matches names of secrets. It matches too much on purpose: a hidden value can be
// requested later, but a published secret cannot be withdrawn.
const secretWordPattern = secretNamePattern + `|key`

// secretNamePattern is used where "key" alone is often not a secret, but the key of an entry.
const secretNamePattern = `pass|pwd|token|secret|credential|api[_-]?key|private[_-]?key|access[_-]?key`

var (
	secretWordRegexp = regexp.MustCompile(`(?i)` + secretWordPattern)
	// valuePattern matches one word or a quoted string; an unterminated quote extends to the end.
	valuePattern = `(?:\\"(?:[^"\\]|\\[^"])*(?:\\"|$)|"[^"]*(?:"|$)|'[^']*(?:'|$)|\S+)`
	// textRules are the patterns that are hidden in texts, and their replacements.
	textRules = []struct {
		what *regexp.Regexp
		with string
	}{
		{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*-----|$)`), Placeholder},
		{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*`), Placeholder}, // JSON Web Token
		{regexp.MustCompile(`(?i)\b(bearer|basic) +[\w.~+/=-]{6,}`), "$1 " + Placeholder},
		// Credentials in URLs and DSNs: https://name:password@host, name:password@tcp(host).
		{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'<>]+@`), "$1" + Placeholder + "@"},
		{regexp.MustCompile(`[^\s:@/"'=]+:[^\s@]+@(tcp|tcp6|unix)\(`), Placeholder + "@$1("},
		// Webhook URLs are credentials: every client that knows the URL can use it.
		{regexp.MustCompile(`(?i)(https?://[^\s/"'<>]*hook[^\s/"'<>]*/)[^\s"'<>]+`), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)(https?://[^\s"'<>]*/(?:web)?hooks?/)[^\s"'<>]+`), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)("[^"]*(?:` + secretNamePattern + `)[^"]*"\s*:\s*)"(?:[^"\\]|\\.)*"`), `$1"` + Placeholder + `"`},
		{regexp.MustCompile(`(?i)(\\"[^"\\]*(?:` + secretNamePattern + `)[^"\\]*\\"\s*:\s*)\\"(?:[^"\\]|\\[^"])*\\"`), `$1\"` + Placeholder + `\"`},
		{regexp.MustCompile(`(?i)([\w.-]*(?:` + secretWordPattern + `)[\w.-]*=)` + valuePattern), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)((?:^|[\s"'])--?[\w.-]*(?:` + secretNamePattern + `)[\w.-]* +)` + valuePattern), "$1" + Placeholder},
		{regexp.MustCompile(`(?i)(\bidentified (?:with \S+ )?(?:by|as) )` + valuePattern), "$1" + Placeholder},
	}
	// Database clients accept a password without a space: -pPASSWORD.
	databaseClientRegexp = regexp.MustCompile(`(?i)\b(mysql|mariadb)`)
	shortPasswordRegexp  = regexp.MustCompile(`(^|\s)-p\S+`)
)

// Text hides secrets in a text: values of words that look like a secret, credentials in URLs, webhook
// URLs, keys and tokens.
func Text(s string) string {
	for _, h := range textRules {
		s = h.what.ReplaceAllString(s, h.with)
	}
	if databaseClientRegexp.MatchString(s) {
		s = shortPasswordRegexp.ReplaceAllString(s, "${1}-p"+Placeholder)
	}
	return s
}

// Args hides secrets in a command line, also if a flag and its value are two arguments.
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
