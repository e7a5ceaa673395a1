package authz

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
)

// maxTokenLength limits the size of a token. Tokens with hundreds of groups have a few thousand characters.
const maxTokenLength = 32 << 10

// redacted is printed instead of a token.
const redacted = "[token]"

// Token is the bearer token of a caller. Printing, logging or encoding it, alone or as part of another value,
// does not reveal its text. The zero value is no token.
type Token struct {
	// reveal is a function because fmt and some encoders print unexported strings, but only the address of a
	// function.
	reveal func() string
}

// NewToken returns the token with this text.
func NewToken(text string) Token {
	if text == "" {
		return Token{}
	}
	return Token{reveal: func() string { return text }}
}

// IsEmpty reports whether there is no token.
func (t Token) IsEmpty() bool { return t.reveal == nil }

func (t Token) text() string {
	if t.IsEmpty() {
		return ""
	}
	return t.reveal()
}

// hash is the key of the token in caches.
func (t Token) hash() [sha256.Size]byte { return sha256.Sum256([]byte(t.text())) }

// Format prints a placeholder for every verb.
func (t Token) Format(f fmt.State, _ rune) { fmt.Fprint(f, redacted) }

// MarshalText returns a placeholder.
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns a placeholder for structured logs.
func (t Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// ParseHeader parses the values of the Authorization header. It requires exactly one value in the form of
// RFC 6750, because a proxy and the center could choose different values.
func ParseHeader(values []string) (Token, error) {
	switch len(values) {
	case 0:
		return Token{}, noTokenError("the request has no Authorization header")
	case 1:
	default:
		return Token{}, noTokenError("the request has more than one Authorization header")
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Token{}, noTokenError("the scheme of the Authorization header is not Bearer")
	}
	text = strings.Trim(text, " ")
	switch {
	case text == "":
		return Token{}, noTokenError("the bearer token is empty")
	case len(text) > maxTokenLength:
		return Token{}, noTokenError(fmt.Sprintf("the bearer token is longer than %d characters", maxTokenLength))
	case !isWellFormedToken(text):
		return Token{}, noTokenError("the bearer token contains invalid characters")
	}
	return NewToken(text), nil
}

// isWellFormedToken reports whether text is a b64token of RFC 6750. All Kubernetes tokens are, and no b64token
// can break a header or a log line.
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
