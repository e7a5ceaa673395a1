package redact_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

func TestValueAt(t *testing.T) {
	cases := []struct {
		path string
		v    any
		want any
	}{
		{"image", "shop/web:1", "shop/web:1"},
		{"replicas", int64(2), int64(2)},
		{"env[MODE].value", canary, redact.Placeholder},
		{"env[MODE]", map[string]any{"name": "MODE", "value": canary}, map[string]any{"name": "MODE", "value": redact.Placeholder}},
		{"env[MODE].valueFrom.secretKeyRef.name", "db", "db"},
		{"config.files[/etc/app.yaml].content", canary, "(omitted: 13 bytes)"},
		{"rootPass", canary, redact.Placeholder},
		{"args", []any{"--password", canary}, []any{"--password", redact.Placeholder}},
		{"probes.ready.httpGet.httpHeaders[X].value", canary, redact.Placeholder},
		{"", map[string]any{"env": []any{map[string]any{"name": "A", "value": canary}}}, map[string]any{"env": []any{map[string]any{"name": "A", "value": redact.Placeholder}}}},
		{"env[MODE].value", nil, nil},
		{"odd[", "x", "x"},
	}
	for _, tc := range cases {
		if diff := cmp.Diff(tc.want, redact.ValueAt(objdiff.ParsePath(tc.path), tc.v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, diff)
		}
	}
}

func TestValueAtAnnotation(t *testing.T) {
	path := objdiff.Path{}.Field("metadata").Field("annotations").Field("kubectl.kubernetes.io/last-applied-configuration")
	if got := redact.ValueAt(path, canary); got != "(omitted: 13 bytes)" {
		t.Errorf("got %v", got)
	}
}
