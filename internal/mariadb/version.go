package mariadb

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Version is the version of a server, for example 11.8.6. The first two numbers are its series.
type Version struct {
	Major, Minor, Patch int
	// HasPatch is set if there was a third number.
	HasPatch bool
}

// versionPattern matches the beginning of a version.
var versionPattern = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?`)

// ParseVersion parses the version of a server, the tag of an image, or a version in a spec.
func ParseVersion(text string) (Version, error) {
	m := versionPattern.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("%q is not a MariaDB version, for example 11.8.6", text)
	}
	var v Version
	for i, to := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*to, _ = strconv.Atoi(m[i+1]) // digits, or nothing
	}
	v.HasPatch = m[3] != ""
	return v, nil
}

// ImageVersion returns the version in the tag of an image, or else the declared one. Tags with
// other numbers, such as build numbers, are ignored.
func ImageVersion(image, declared string) (Version, error) {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
		if v, err := ParseVersion(image[i+1:]); err == nil && v.isPlausible() {
			return v, nil
		}
	}
	return ParseVersion(declared)
}

// isPlausible reports whether such a MariaDB version can exist: 10.0 followed 5.5, and a year is
// not a version.
func (v Version) isPlausible() bool {
	return v.Major == 5 && v.Minor == 5 || v.Major >= 10 && v.Major < 100
}

// OlderThan reports whether v is of an older series, which cannot read the data of other. Patches
// of a series are compatible.
func (v Version) OlderThan(other Version) bool {
	return v.Major < other.Major || v.Major == other.Major && v.Minor < other.Minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Series is the part of the version within which data is compatible, for example 11.8.
func (v Version) Series() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// SupportsTwoPasswords reports whether an account can have two passwords.
func (v Version) SupportsTwoPasswords() bool { return v.Major > 10 || v.Major == 10 && v.Minor >= 4 }

// ReloadsCertificates reports whether a running server can load another certificate.
func (v Version) ReloadsCertificates() bool { return v.SupportsTwoPasswords() } // both since 10.4
