package reader

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// TestCanonical checks that quantities and empty fields are normalized.
func TestCanonical(t *testing.T) {
	parse := func(text string) (out revision.Spec) {
		if err := yaml.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	got, err := Canonical(appkind.Of(&appsapi.AppStack{}), parse(`{suspend: false, components: [{name: a, stateful: {image: x, env: [], storage: [{name: d, mountPath: /d, size: 1024Mi}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse(`{components: [{name: a, stateful: {image: x, storage: [{name: d, mountPath: /d, size: 1Gi}]}}]}`), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
