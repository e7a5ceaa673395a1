package redact_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/redact"
)

func TestAt(t *testing.T) {
	cases := []struct {
		path string
		v    any
		want any
	}{
		{"image", "shop/web:1", "shop/web:1"},
		{"replicas", int64(2), int64(2)},
		{"env[MODE].value", canary, redact.Hidden},
		{"env[MODE]", map[string]any{"name": "MODE", "value": canary}, map[string]any{"name": "MODE", "value": redact.Hidden}},
		{"env[MODE].valueFrom.secretKeyRef.name", "db", "db"},
		{"config.files[/etc/app.yaml].content", canary, "(left out: 13 bytes)"},
		{"rootPass", canary, redact.Hidden},
		{"args", []any{"--password", canary}, []any{"--password", redact.Hidden}},
		{"probes.ready.httpGet.httpHeaders[X].value", canary, redact.Hidden},
		{"", map[string]any{"env": []any{map[string]any{"name": "A", "value": canary}}}, map[string]any{"env": []any{map[string]any{"name": "A", "value": redact.Hidden}}}},
		{"env[MODE].value", nil, nil},
		{"odd[", "x", "x"},
	}
	for _, tc := range cases {
		if diff := cmp.Diff(tc.want, redact.At(tc.path, tc.v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, diff)
		}
	}
}
