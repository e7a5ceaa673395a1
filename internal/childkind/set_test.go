package childkind

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// everything has components with all children of a type.
var everything = map[appsapi.ComponentType]string{
	appsapi.ComponentService: `[{"service": {"image": "i", "replicas": 2, "ports": [{"port": 80}], "autoscaling": {"minReplicas": 2, "maxReplicas": 3},
			"config": {"files": [{"path": "/f", "content": "c"}]}, "expose": {"hostnames": ["example.com"]}}},
		{"service": {"image": "i", "ports": [{"port": 80}], "expose": {"hostnames": ["example.com"], "gatewayRef": {"name": "g"}}}}]`,
	appsapi.ComponentStateful: `[{"stateful": {"image": "i", "replicas": 2, "ports": [{"port": 80}],
		"config": {"files": [{"path": "/f", "content": "c"}]}, "storage": [{"name": "data", "mountPath": "/data", "size": "1Gi"}]}}]`,
	appsapi.ComponentJob: `[{"job": {"image": "i", "config": {"files": [{"path": "/f", "content": "c"}]}}}, {"job": {"image": "i", "schedule": "0 * * * *"}}]`,
}

// A missing kind makes the operator fail, and an additional kind requires unnecessary permissions.
func TestSetsHaveTheChildrenOfTheirTypes(t *testing.T) {
	owner := desired.Owner{Keys: appsapi.DefaultKeys, Namespace: "shop", Name: "shop"}
	for componentType, spec := range everything {
		t.Run(string(componentType), func(t *testing.T) {
			var components []appsapi.Component
			decoder := json.NewDecoder(strings.NewReader(spec))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&components); err != nil {
				t.Fatal(err)
			}
			var want []string
			for i := range components {
				components[i].Name = string(rune('a' + i))
			}
			for _, c := range desired.Build(owner, desired.ExpandComponents(components), desired.ClusterState{}) {
				for _, child := range c.Children {
					want = append(want, child.Kind.Kind)
				}
			}
			if diff := cmp.Diff(sortedSet(want), kindsOf(t, componentType)); diff != "" {
				t.Errorf("kinds of children (-built +in the set):\n%s", diff)
			}
		})
	}
}

func TestSetOfTypes(t *testing.T) {
	if diff := cmp.Diff(kindsOf(t, appsapi.ComponentStateful), kindsOf(t, appsapi.ComponentDatabase)); diff != "" {
		t.Errorf("a database needs the kinds of a stateful component:\n%s", diff)
	}
	if len(All.Required) != len(Required) || len(All.Optional) != len(Optional) || !All.Data || !All.ConfigRefs {
		t.Errorf("kinds are missing: %+v", All)
	}
	job, _ := NewSet([]appsapi.ComponentType{appsapi.ComponentJob}, true)
	if job.Data || job.ConfigRefs || job.Has(appsapi.ComponentService) || !slices.ContainsFunc(job.Required, func(k Kind) bool { return k.GVK == Revision.GVK }) {
		t.Errorf("jobs with revisions: %+v", job)
	}
	if len(job.Cached()) != 1+len(job.Required) {
		t.Errorf("caches %v", job.Cached())
	}
	if _, err := NewSet([]appsapi.ComponentType{"service"}, false); err == nil {
		t.Error("an unknown component type is accepted")
	}
}

func kindsOf(t *testing.T, types ...appsapi.ComponentType) []string {
	t.Helper()
	s, err := NewSet(types, false)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, k := range slices.Concat(s.Required, s.Optional) {
		out = append(out, k.GVK.Kind)
	}
	return sortedSet(out)
}

func sortedSet(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
