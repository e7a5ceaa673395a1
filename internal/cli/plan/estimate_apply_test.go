package plan

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetDefaults(t *testing.T) {
	spec := map[string]any{"components": []any{map[string]any{"service": map[string]any{
		"ports":              []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(53), "protocol": "UDP"}},
		"podTemplateOverlay": map[string]any{"ports": []any{map[string]any{"containerPort": int64(80)}}},
	}}}}
	want := map[string]any{"components": []any{map[string]any{"service": map[string]any{
		"ports":              []any{map[string]any{"port": int64(80), "protocol": "TCP"}, map[string]any{"port": int64(53), "protocol": "UDP"}},
		"podTemplateOverlay": map[string]any{"ports": []any{map[string]any{"containerPort": int64(80)}}},
	}}}}
	setDefaults(spec)
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestSchemasHaveOneDefault fails if setDefaults lacks a default of the schemas. Zero values need none, because
// Go types drop them.
func TestSchemasHaveOneDefault(t *testing.T) {
	files, err := filepath.Glob("../../../config/crd/apps.*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	pattern := regexp.MustCompile(`(?m)^ +default: (.*)$`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range pattern.FindAllSubmatch(content, -1) {
			if value := string(match[1]); !slices.Contains([]string{`""`, "false", "TCP"}, value) {
				t.Errorf("%s has the default %s, which setDefaults does not set", file, value)
			}
		}
	}
}
