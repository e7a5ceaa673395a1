package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// maxLabelLength is the length of a DNS label and of the value of a label.
const maxLabelLength = 63

// ResourceName is the name of the children of a component.
func ResourceName(owner Owner, c appsapi.Component) string {
	if c.ResourceName != "" {
		return c.ResourceName
	}
	return shorten(owner.Name + "-" + c.Name)
}

// WorkloadID is the value of the label that a workload and its pods share. It is made
// of kind and name alone: whatever else may change, the selector must not.
func WorkloadID(kind, name string) string {
	return shorten(strings.ToLower(kind) + "-" + name)
}

// shorten keeps a name within a label; a long one ends in a hash of the whole, so that
// two long names stay two.
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
