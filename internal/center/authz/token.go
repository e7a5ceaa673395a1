package authz

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
)

// maxTokenLength is generous: tokens with hundreds of groups have a few thousand characters.
const maxTokenLength = 32 << 10

// redacted is how a token looks wherever it is printed.
const redacted = "[token]"

// Token is the bearer token of a caller. It does not give away its text by being printed,
// logged or encoded, alone or as part of another value. The zero value is no token.
type Token struct {
	// A function, because fmt and encoders that look into unexported fields print the text of a
	// string that they find there, and only the address of this.
	reveal func() string
}

// NewToken returns the token with this text.
func NewToken(text string) Token {
	if text == "" {
		return Token{}
	}
	return Token{reveal: func() string { return text }}
}

// IsEmpty tells whether there is no token.
func (t Token) IsEmpty() bool { return t.reveal == nil }

func (t Token) text() string {
	if t.IsEmpty() {
		return ""
	}
	return t.reveal()
}

// hash stands for the token wherever something is kept about it.
func (t Token) hash() [sha256.Size]byte { return sha256.Sum256([]byte(t.text())) }

// Format prints no token, with every verb.
func (t Token) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText is for encoders: they get no token either.
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue is for structured logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// ParseHeader reads the values of the header Authorization. It takes exactly one, of the form
// of RFC 6750: two of them may be read differently by a proxy and by the center.
func ParseHeader(values []string) (Token, error) {
	switch len(values) {
	case 0:
		return Token{}, noTokenError("the request has no header Authorization")
	case 1:
	default:
		return Token{}, noTokenError("the request has more than one header Authorization")
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Token{}, noTokenError("the header Authorization is not of the kind Bearer")
	}
	text = strings.Trim(text, " ")
	switch {
	case text == "":
		return Token{}, noTokenError("nothing follows the word Bearer")
	case len(text) > maxTokenLength:
		return Token{}, noTokenError(fmt.Sprintf("what follows the word Bearer is longer than %d characters", maxTokenLength))
	case !isWellFormedToken(text):
		return Token{}, noTokenError("what follows the word Bearer has characters that no token has")
	}
	return NewToken(text), nil
}

// isWellFormedToken tells whether text has the characters of a b64token of RFC 6750: all tokens of
// Kubernetes do, and nothing that could break a header or a log line.
func isWellFormedToken(text string) bool {
	body := strings.TrimRight(text, "=")
	for i := range len(body) {
		c := body[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return body != ""
}
