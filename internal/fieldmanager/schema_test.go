package fieldmanager

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// TestTablesMatchAPISchema compares our tables with the OpenAPI schema for every list and map that
// a child can have, including by an overlay: a list that we treat as atomic although the API server
// merges it, or vice versa, would be corrected forever or never.
func TestTablesMatchAPISchema(t *testing.T) {
	converter := applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
	s := schemaTest{T: t, seen: map[string]bool{}, fields: map[string]bool{}}
	for _, child := range []runtime.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ConfigMap{}, &batchv1.Job{}, &batchv1.CronJob{},
		&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &networkingv1.Ingress{},
	} {
		kinds, _, err := clientgoscheme.Scheme.ObjectKinds(child)
		if err != nil {
			t.Fatal(err)
		}
		child.GetObjectKind().SetGroupVersionKind(kinds[0])
		typed, err := converter.ObjectToTyped(child)
		if err != nil {
			t.Fatal(err)
		}
		s.schema = typed.Schema()
		s.check("", typed.TypeRef())
	}
	for _, name := range objdiff.MergedLists() {
		if !s.fields[name] && !slices.Contains(ownLists, name) {
			t.Errorf("no child has the list %s", name)
		}
	}
	for name := range atomicMaps {
		if !s.fields[name] {
			t.Errorf("no child has the map %s", name)
		}
	}
}

// neverApplied are fields that are never applied: fields of other writers, fields with their own
// comparison, and fields that neither the API server nor an overlay may set in a template.
var neverApplied = []string{"status", "metadata", "ephemeralContainers", "hostAliases", "evictionResponders", "bindMountOptions",
	"defaultBackend"}

// ownLists are lists that only our own kinds have.
var ownLists = []string{"bindings", "components", "credentials", "files", "operations", "storage"}

type schemaTest struct {
	*testing.T
	schema       *schema.Schema
	seen, fields map[string]bool
}

func (s schemaTest) check(field string, ref schema.TypeRef) {
	s.Helper()
	if ref.NamedType != nil {
		if s.seen[field+" "+*ref.NamedType] {
			return
		}
		s.seen[field+" "+*ref.NamedType] = true
	}
	atom, ok := s.schema.Resolve(ref)
	if !ok {
		s.Fatalf("%s has no schema", field)
	}
	s.fields[field] = true
	switch {
	case atom.List != nil:
		s.checkList(field, atom.List)
	case atom.Map != nil && field != "" && atom.Scalar == nil: // a quantity may be a number
		atomic := atom.Map.ElementRelationship == schema.Atomic
		if atomic != atomicMaps[field] {
			s.Errorf("map %s: atomic in the API: %t, in our table: %t", field, atomic, atomicMaps[field])
		}
		if !atomic {
			s.checkFields(atom.Map)
		}
	case atom.Map != nil:
		s.checkFields(atom.Map)
	}
}

func (s schemaTest) checkFields(m *schema.Map) {
	s.Helper()
	for _, f := range m.Fields {
		if !slices.Contains(neverApplied, f.Name) {
			s.check(f.Name, f.Type)
		}
	}
}

func (s schemaTest) checkList(field string, list *schema.List) {
	s.Helper()
	var want []string
	if list.ElementRelationship == schema.Associative {
		want = list.Keys
	}
	example := map[string]any{}
	for _, k := range want {
		example[k] = ""
	}
	if got := objdiff.MergeKeys(field, example); !slices.Equal(got, want) {
		s.Errorf("list %s: API keys %v, our keys %v", field, want, got)
	}
	if len(want) == 0 {
		return
	}
	// Inside of an element the name of the list selects the rules.
	if atom, _ := s.schema.Resolve(list.ElementType); atom.Map != nil {
		s.checkFields(atom.Map)
	}
}

// TestUnionFieldsMatchAPI finds a handler, hook or source of a newer API that our table lacks.
func TestUnionFieldsMatchAPI(t *testing.T) {
	for name, tc := range map[string]struct {
		parent  any
		ignored []string // fields that are not part of the union
	}{
		"preStop":        {parent: corev1.LifecycleHandler{}},
		"valueFrom":      {parent: corev1.EnvVarSource{}},
		"env":            {parent: corev1.EnvVar{}, ignored: []string{"name"}},
		"readinessProbe": {parent: corev1.ProbeHandler{}},
		"volumes":        {parent: corev1.VolumeSource{}},
	} {
		var want []string
		for f := range reflect.TypeOf(tc.parent).Fields() {
			if field, _, _ := strings.Cut(f.Tag.Get("json"), ","); !slices.Contains(tc.ignored, field) {
				want = append(want, field)
			}
		}
		slices.Sort(want)
		if !slices.Equal(unionFields[name], want) {
			t.Errorf("%s: the API has %v, our table has %v", name, want, unionFields[name])
		}
	}
}
