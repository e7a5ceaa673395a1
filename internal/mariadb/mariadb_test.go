package mariadb_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

func TestHash(t *testing.T) {
	// result of SELECT PASSWORD('password')
	if got, want := mariadb.Hash("password"), "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for s, want := range map[string]bool{mariadb.Hash("x"): true, mariadb.Hash(""): false, "": false, "*12": false, "'*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19": false} {
		if got := mariadb.IsHash(s); got != want {
			t.Errorf("%q is a hash: %v, want %v", s, got, want)
		}
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]mariadb.Version{
		"11.8.6-MariaDB-log":         {Major: 11, Minor: 8, Patch: 6, HasPatch: true},
		"10.11.19-MariaDB-0+deb12u1": {Major: 10, Minor: 11, Patch: 19, HasPatch: true},
		"10.3.35":                    {Major: 10, Minor: 3, Patch: 35, HasPatch: true},
		"11.8":                       {Major: 11, Minor: 8},
		"10.11-jammy":                {Major: 10, Minor: 11},
	} {
		got, err := mariadb.ParseVersion(text)
		if err != nil || got != want {
			t.Errorf("%q parses as %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "latest", "lts", "11"} {
		if v, err := mariadb.ParseVersion(text); err == nil {
			t.Errorf("%q parses as %v", text, v)
		}
	}
	for text, want := range map[string]bool{"10.3.39": false, "10.4.0": true, "10.11": true, "11.8": true} {
		if v, _ := mariadb.ParseVersion(text); v.SupportsTwoPasswords() != want || v.ReloadsCertificates() != want {
			t.Errorf("%s supports two passwords: %v, want %v", text, v.SupportsTwoPasswords(), want)
		}
	}
}

func TestImageVersion(t *testing.T) {
	for _, c := range []struct{ image, declared, want string }{
		{"mariadb:11.8", "", "11.8.0"},
		{"registry:5000/db/mariadb:10.11.4-jammy@sha256:abc", "11.8", "10.11.4"},
		{"registry:5000/db/mariadb", "11.8", "11.8.0"},
		{"mariadb:lts", "11.4", "11.4.0"},
		{"mariadb:lts", "", ""},
		{"registry/db:1.5", "11.8", "11.8.0"}, // not a MariaDB version
		{"registry/db:2024.06", "10.11", "10.11.0"},
		{"registry/db:1.5", "", ""},
		{"mariadb:5.5", "", "5.5.0"},
	} {
		v, err := mariadb.ImageVersion(c.image, c.declared)
		if (err != nil) != (c.want == "") || err == nil && v.String() != c.want {
			t.Errorf("%s with %q is %s, %v; want %s", c.image, c.declared, v, err, c.want)
		}
	}
}

func TestOlderThan(t *testing.T) {
	for _, c := range []struct {
		image, volume string
		want          bool
	}{
		{"10.11", "11.8.6", true},
		{"11.4", "11.8.6", true},
		{"11.8.2", "11.8.6", false}, // an older patch reads the same files
		{"11.8", "10.11.4", false},
		{"12.0", "11.8.6", false},
	} {
		image, _ := mariadb.ParseVersion(c.image)
		volume, _ := mariadb.ParseVersion(c.volume)
		if got := image.OlderThan(volume); got != c.want {
			t.Errorf("%s is older than %s: %v", c.image, c.volume, got)
		}
	}
}
