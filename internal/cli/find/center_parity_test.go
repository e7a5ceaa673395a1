package find

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// TestFindsSameReferencesAsCenter compares the plugin, which searches unstructured fields, with the center,
// which uses the typed inspect.References.
func TestFindsSameReferencesAsCenter(t *testing.T) {
	var typed batchv1.CronJob
	var fields map[string]any
	for _, target := range []any{&typed, &fields} {
		if err := yaml.Unmarshal([]byte(allReferences), target); err != nil {
			t.Fatal(err)
		}
	}
	references := map[inspect.Ref]bool{}
	for _, ref := range inspect.References(&typed) {
		references[inspect.Ref{Kind: ref.Kind, Name: ref.Name}] = true
	}
	for _, name := range []string{"s", "c", "other", "main", "p", "k"} {
		_, secret := query{secret: name}.match(fields)
		_, configMap := query{configMap: name}.match(fields)
		if references[inspect.Ref{Kind: "Secret", Name: name}] != secret || references[inspect.Ref{Kind: "ConfigMap", Name: name}] != configMap {
			t.Errorf("%s: the plugin finds a Secret: %t, a ConfigMap: %t; references are %v", name, secret, configMap, references)
		}
	}
	for _, image := range inspect.Images(&typed) {
		if _, ok := (query{image: image}).match(fields); !ok {
			t.Errorf("the plugin does not find image %s", image)
		}
	}
	if n := len(inspect.Images(&typed)); n != 3 {
		t.Errorf("%d images, want 3", n)
	}
}
