package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxLabelLength is the maximum length of a DNS label and of a label value.
const maxLabelLength = 63

// DeclaredName returns the name that the spec declares for the children of a component, or the default.
func DeclaredName(owner Owner, c ExpandedComponent) string {
	if c.ResourceName != "" {
		return c.ResourceName
	}
	return shorten(owner.Name + "-" + c.Name)
}

// WorkloadID returns the label value of a workload and its pods. It depends only on kind and name, because the
// selector is immutable.
func WorkloadID(kind, name string) string {
	return shorten(strings.ToLower(kind) + "-" + name)
}

// shorten limits a name to the length of a label. A shortened name ends with a hash of the full name, so that it
// stays unique.
func shorten(name string) string { return shortenTo(name, maxLabelLength) }

func shortenTo(name string, maxLength int) string {
	if len(name) <= maxLength {
		return name
	}
	const hash = 10
	return strings.TrimRight(name[:maxLength-hash-1], "-.") + "-" + digest([]byte(name))[:hash]
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
