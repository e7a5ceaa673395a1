package find

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/view"
)

// TestSame holds that the center, which asks view.References, and the plugin, which also has
// to say where something is named, find the same: one goes through types, the other through
// fields.
func TestSame(t *testing.T) {
	var typed batchv1.CronJob
	var fields map[string]any
	for _, into := range []any{&typed, &fields} {
		if err := yaml.Unmarshal([]byte(everything), into); err != nil {
			t.Fatal(err)
		}
	}
	refers := map[view.Ref]bool{}
	for _, ref := range view.References(&typed) {
		refers[view.Ref{Kind: ref.Kind, Name: ref.Name}] = true
	}
	for _, name := range []string{"s", "c", "other", "main", "p", "k"} {
		_, secret := query{secret: name}.in(fields)
		_, configMap := query{configMap: name}.in(fields)
		if refers[view.Ref{Kind: "Secret", Name: name}] != secret || refers[view.Ref{Kind: "ConfigMap", Name: name}] != configMap {
			t.Errorf("%s: the plugin finds a Secret: %t, a ConfigMap: %t; references are %v", name, secret, configMap, refers)
		}
	}
	for _, image := range view.Images(&typed) {
		if _, ok := (query{image: image}).in(fields); !ok {
			t.Errorf("the plugin does not find image %s", image)
		}
	}
	if n := len(view.Images(&typed)); n != 3 {
		t.Errorf("%d images, want 3", n)
	}
}
