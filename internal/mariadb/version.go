package mariadb

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is that of a server, for example 11.8.6. The first two numbers are its series.
type Version struct {
	Major, Minor, Patch int
	// HasPatch says that there was a third number.
	HasPatch bool
}

// versionPattern is how a version begins.
var versionPattern = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?`)

// ParseVersion reads what a server says of itself, what an image is tagged with, or what
// somebody has written down.
func ParseVersion(text string) (Version, error) {
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("%q is not the version of a MariaDB, for example 11.8.6", text)
	}
	var v Version
	for i, to := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*to, _ = strconv.Atoi(m[i+1]) // digits, or nothing
	}
	v.HasPatch = m[3] != ""
	return v, nil
}

// ImageVersion is the one that the tag of an image says, or else what was written down beside it. Tags that number
// something else, such as the builds of a company, say nothing of the server.
func ImageVersion(image, declared string) (Version, error) {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		if v, err := ParseVersion(image[i+1:]); err == nil && v.isPlausible() {
			return v, nil
		}
	}
	return ParseVersion(declared)
}

// isPlausible says whether there is, or may come to be, such a server: after 5.5 came 10.0, and a year is no version.
func (v Version) isPlausible() bool {
	return v.Major == 5 && v.Minor == 5 || v.Major >= 10 && v.Major < 100
}

// OlderThan says whether what the other one has written cannot be read by this one: another patch of
// the same series does not matter.
func (v Version) OlderThan(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Series is what data can be read within without being upgraded, for example 11.8.
func (v Version) Series() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// SupportsTwoPasswords says whether an account can have two passwords at once.
func (v Version) SupportsTwoPasswords() bool { return v.Major > 10 || v.Major == 10 && v.Minor >= 4 }
