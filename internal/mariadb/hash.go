package mariadb

import (
	"crypto/sha1" //nolint:gosec // mysql_native_password uses SHA-1
	"encoding/hex"
	"regexp"
	"strings"
)

// Hash returns the result of PASSWORD().
func Hash(password string) string {
	inner := sha1.Sum([]byte(password)) //nolint:gosec // as above
	outer := sha1.Sum(inner[:])         //nolint:gosec // as above
	return "*" + strings.ToUpper(hex.EncodeToString(outer[:]))
}

var hashPattern = regexp.MustCompile(`^\*[0-9A-F]{40}$`)

// IsHash reports whether a string is a valid password hash. The hash of an empty password is not:
// it would allow logins without a password.
func IsHash(s string) bool { return hashPattern.MatchString(s) && s != Hash("") }
