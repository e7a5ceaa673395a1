package v1alpha1_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestEveryFieldHasDescription checks that `kubectl explain` has a text for every field, including fields of
// Kubernetes types.
func TestEveryFieldHasDescription(t *testing.T) {
	for kind, crd := range crds(t) {
		fields := 0
		var walk func(path string, s *apiextensionsv1.JSONSchemaProps)
		walk = func(path string, s *apiextensionsv1.JSONSchemaProps) {
			for name, p := range s.Properties {
				if fields++; p.Description == "" && path+name != kind+".metadata" { // described by the API server
					t.Errorf("%s%s has no description", path, name)
				}
				walk(path+name+".", &p)
			}
			if s.Items != nil && s.Items.Schema != nil {
				walk(path+"[].", s.Items.Schema)
			}
			if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
				walk(path+"{}.", s.AdditionalProperties.Schema)
			}
		}
		walk(kind+".", crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		t.Logf("%s: %d fields", kind, fields)
	}
}
