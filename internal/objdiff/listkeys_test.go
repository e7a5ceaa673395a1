package objdiff

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// ambiguousLists are lists of Holdfast kinds that have no merge keys in children, or that only a status has.
var ambiguousLists = []string{"items", "conditions", "endpoints"}

// Package ownership compares the table with the schemas of children.
func TestMergeKeysMatchCRDs(t *testing.T) {
	files, err := filepath.Glob("../../config/crd/apps.*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	checked := 0
	var check func(field string, schema *apiextensionsv1.JSONSchemaProps)
	check = func(field string, schema *apiextensionsv1.JSONSchemaProps) {
		if schema.XListType != nil && *schema.XListType == "map" && !slices.Contains(ambiguousLists, field) {
			checked++
			if got := MergeKeys(field, nil); !slices.Equal(got, schema.XListMapKeys) {
				t.Errorf("list %s: the CRD has keys %v, the table has %v", field, schema.XListMapKeys, got)
			}
		}
		for name, p := range schema.Properties {
			check(name, &p)
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			check("", schema.Items.Schema)
		}
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			check("", v.Schema.OpenAPIV3Schema)
		}
	}
	if checked == 0 {
		t.Error("the CRDs have no list with merge keys")
	}
}
