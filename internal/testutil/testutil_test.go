package testutil

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

func TestNamespacePrefix(t *testing.T) {
	tests := map[string]struct {
		test, want string
	}{
		"plain":              {"TestRollout", "testrollout-"},
		"subtest":            {"TestRollout/two_pods", "testrollout-two-pods-"},
		"long":               {"Test" + strings.Repeat("x", 60), "test" + strings.Repeat("x", 36) + "-"},
		"cut at a separator": {"Test" + strings.Repeat("x", 35) + "/sub", "test" + strings.Repeat("x", 35) + "-"},
		"not ASCII":          {"TestÄpfel", "test-pfel-"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := namespacePrefix(tc.test)
			if got != tc.want {
				t.Errorf("namespacePrefix(%q) = %q, want %q", tc.test, got, tc.want)
			}
			if errs := validation.IsDNS1123Label(got + "abcde"); errs != nil {
				t.Errorf("%qabcde is not a valid namespace name: %v", got, errs)
			}
		})
	}
}

func TestNamespacesDiffer(t *testing.T) {
	plane := ControlPlane(t, controlplane.Options{NoControllerManager: true})
	one, two := Namespace(t, plane.Config), Namespace(t, plane.Config)
	if one == two || !strings.HasPrefix(one, "testnamespacesdiffer-") {
		t.Errorf("got namespaces %q and %q, want two different ones named after the test", one, two)
	}
}
