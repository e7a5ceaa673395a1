package mariadb

import (
	"crypto/sha1" //nolint:gosec // what mysql_native_password is made of
	"encoding/hex"
	"regexp"
	"strings"
)

// Hash is what PASSWORD() says of a password.
func Hash(password string) string {
	inner := sha1.Sum([]byte(password)) //nolint:gosec // as above
	outer := sha1.Sum(inner[:])         //nolint:gosec // as above
	return "*" + strings.ToUpper(hex.EncodeToString(outer[:]))
}

var hashPattern = regexp.MustCompile(`^\*[0-9A-F]{40}$`)

// IsHash says whether something can be stored as a password. That of an empty one cannot: it would let everybody
// in.
func IsHash(s string) bool { return hashPattern.MatchString(s) && s != Hash("") }
