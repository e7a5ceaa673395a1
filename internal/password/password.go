// Package password makes passwords.
package password

import "crypto/rand"

// New has 32 characters that need no quotes anywhere.
func New() string { return rand.Text() + rand.Text()[:6] }
