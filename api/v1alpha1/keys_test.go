package v1alpha1

import (
	"reflect"
	"strings"
	"testing"
)

// Objects of existing installations would not be recognized after a key is renamed.
func TestDefaultKeysAreStable(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{DefaultKeys.Finalizer, "apps.holdfast.dev/ordered-deletion"},
		{DefaultKeys.FieldManager, "holdfast"}, {DefaultKeys.FieldManagerStatus, "holdfast-status"},
		{DefaultKeys.Workload, "apps.holdfast.dev/workload"}, {DefaultKeys.OwnerUID, "apps.holdfast.dev/owner-uid"}, {DefaultKeys.OwnerKind, "apps.holdfast.dev/owner-kind"},
		{DefaultKeys.Retained, "apps.holdfast.dev/retained"}, {DefaultKeys.AppliedHash, "apps.holdfast.dev/applied-hash"},
		{DefaultKeys.ConfigHash, "apps.holdfast.dev/config-hash"}, {DefaultKeys.ConfigRefs, "apps.holdfast.dev/config-refs"},
		{DefaultKeys.RestartedAt, "apps.holdfast.dev/restarted-at"}, {DefaultKeys.DependsOn, "apps.holdfast.dev/depends-on"},
		{DefaultKeys.PreviousDependsOn, "apps.holdfast.dev/previous-depends-on"}, {DefaultKeys.JobSpec, "apps.holdfast.dev/job-spec"},
		{DefaultKeys.RevisionHealthy, "apps.holdfast.dev/revision-healthy"}, {DefaultKeys.Adopt, "apps.holdfast.dev/adopt"},
		{DefaultKeys.Prune, "apps.holdfast.dev/prune"}, {DefaultKeys.Container, "apps.holdfast.dev/container"},
		{DefaultKeys.ConfirmDelete, "apps.holdfast.dev/confirm-delete"}, {DefaultKeys.RotationRequested, "apps.holdfast.dev/rotation-requested"},
		{DefaultKeys.RotatedAt, "apps.holdfast.dev/rotated-at"}, {DefaultKeys.CredentialKeys, "apps.holdfast.dev/credential-keys"},
		{DefaultKeys.ResetCredentials, "apps.holdfast.dev/reset-credentials"}, {DefaultKeys.ServerVersion, "apps.holdfast.dev/server-version"},
		{DefaultKeys.ServerImage, "apps.holdfast.dev/server-image"}, {DefaultKeys.Schema, "apps.holdfast.dev/schema"},
		{DefaultKeys.Released, "apps.holdfast.dev/released"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
}

func TestKeysAreDistinct(t *testing.T) {
	seen := map[string]string{}
	v := reflect.ValueOf(*NewKeys("example.com", "example"))
	for i := range v.NumField() {
		name, key := v.Type().Field(i).Name, v.Field(i).String()
		if seen[key] != "" {
			t.Errorf("%s and %s are both %q", name, seen[key], key)
		}
		seen[key] = name
		if !strings.HasPrefix(name, "FieldManager") && !strings.HasPrefix(key, "example.com") {
			t.Errorf("%s is %q, without the prefix", name, key)
		}
	}
}

func TestOwn(t *testing.T) {
	for name, want := range map[string]bool{"example.com/adopt": true, "example.com": false, "example.company/adopt": false, "other/adopt": false, "adopt": false} {
		if got := NewKeys("example.com", "example").Own(name); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
