package explain

import "github.com/holdfast-dev/holdfast/internal/plaintext"

// WithSpecPath names the fields of a fix by their path in the spec of the application, for example
// spec.components[web].service.image instead of spec.image.
func (c Cause) WithSpecPath(path string) Cause {
	if path != "" && path != "spec" {
		c.Fix = plaintext.Line(specFieldPattern.ReplaceAllString(c.Fix, path+".$1"), maxMessage)
	}
	return c
}
