package apply

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/yaml"
)

// TestSchema holds our tables against the API's own schema, for every list and map that
// a golden case has: a list that we take for one value and the API server merges, or the
// other way round, would be repaired for ever or never.
func TestSchema(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "desired", "testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	converter := applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
	seen := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(strings.TrimPrefix(string(content), "---\n"), "---\n") {
			typed, err := converter.ObjectToTyped(parse(t, doc))
			if err != nil {
				t.Fatal(err)
			}
			var body map[string]any
			if err := yaml.Unmarshal([]byte(doc), &body); err != nil {
				t.Fatal(err)
			}
			delete(body, "metadata") // compared as labels, annotations and owner
			s := schemaTest{t, typed.Schema(), seen}
			s.check("", body, typed.TypeRef())
		}
	}
	for name := range listKeys {
		if !seen[name] {
			t.Errorf("no golden case has the list %s", name)
		}
	}
}

type schemaTest struct {
	*testing.T
	schema *schema.Schema
	seen   map[string]bool
}

func (s schemaTest) check(field string, value any, ref schema.TypeRef) {
	s.Helper()
	atom, ok := s.schema.Resolve(ref)
	if !ok {
		s.Fatalf("%s has no schema", field)
	}
	s.seen[field] = true
	switch v := value.(type) {
	case map[string]any:
		if atom.Map == nil {
			s.Fatalf("%s is no map", field)
		}
		if atomic := atom.Map.ElementRelationship == schema.Atomic; atomic != whole[field] {
			s.Errorf("map %s: the API takes it as one value: %t, we do: %t", field, atomic, whole[field])
		}
		for k, e := range v {
			if f, ok := atom.FindField(k); ok {
				s.check(k, e, f.Type)
				continue
			}
			s.check(k, e, atom.Map.ElementType)
		}
	case []any:
		s.checkList(field, v, atom.List)
	}
}

func (s schemaTest) checkList(field string, list []any, schemaOf *schema.List) {
	s.Helper()
	if schemaOf == nil {
		s.Fatalf("%s is no list", field)
	}
	first, _ := list[0].(map[string]any)
	var want []string
	if schemaOf.ElementRelationship == schema.Associative {
		want = schemaOf.Keys
	}
	if got := keysOf(field, first); !slices.Equal(got, want) {
		s.Errorf("list %s: the keys are %v, we use %v", field, want, got)
	}
	for _, e := range list {
		if element, ok := e.(map[string]any); ok && len(want) > 0 {
			// Inside of an element the name of the list says which rules hold.
			atom, _ := s.schema.Resolve(schemaOf.ElementType)
			for k, v := range element {
				f, _ := atom.FindField(k)
				s.check(k, v, f.Type)
			}
		}
	}
}

// TestExclusive finds a handler, hook or source that a newer API has and our table does
// not know.
func TestExclusive(t *testing.T) {
	for name, tc := range map[string]struct {
		parent any
		less   []string // fields that are no choice
	}{
		"preStop":        {parent: corev1.LifecycleHandler{}},
		"valueFrom":      {parent: corev1.EnvVarSource{}},
		"env":            {parent: corev1.EnvVar{}, less: []string{"name"}},
		"readinessProbe": {parent: corev1.ProbeHandler{}},
	} {
		var want []string
		for f := range reflect.TypeOf(tc.parent).Fields() {
			if field, _, _ := strings.Cut(f.Tag.Get("json"), ","); !slices.Contains(tc.less, field) {
				want = append(want, field)
			}
		}
		slices.Sort(want)
		if !slices.Equal(exclusive[name], want) {
			t.Errorf("%s: the API has %v, we know %v", name, want, exclusive[name])
		}
	}
}
