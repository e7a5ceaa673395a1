package objdiff

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestChangedBy(t *testing.T) {
	const (
		early = "'2026-01-02T03:04:05Z'"
		late  = "'2026-01-02T03:04:06Z'"
		edit  = "manager: edit, operation: Update, apiVersion: v1"
		hold  = "manager: holdfast, operation: Apply, apiVersion: v1"
	)
	value := []FieldChange{{Path: ParsePath("data.a"), Type: Changed}}
	gone := []FieldChange{{Path: ParsePath("data.a"), Type: Removed}}
	item := []FieldChange{{Path: ParsePath("spec.c[web].image"), Type: Changed}}
	cases := map[string]struct {
		before, after string
		fields        []FieldChange
		want          string
	}{
		"creation":      {after: "[{" + edit + ", time: " + early + "}]", want: "edit (Update)"},
		"a later time":  {before: "[{" + edit + ", time: " + early + "}]", after: "[{" + edit + ", time: " + late + "}]", fields: value, want: "edit (Update)"},
		"a new manager": {before: "[{" + edit + ", time: " + early + "}]", after: "[{" + edit + ", time: " + early + "}, {" + hold + ", time: " + early + "}]", fields: value, want: "holdfast (Apply)"},
		"status subresource": {
			before: "[{" + hold + ", time: " + early + "}]",
			after:  "[{" + hold + ", time: " + early + "}, {" + hold + ", subresource: status, time: " + early + "}]", fields: value, want: "holdfast (Apply of status)",
		},
		"another manager takes a field within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:b': {}}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}]",
			fields: value, want: "holdfast (Apply)",
		},
		"the owner writes again within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {}}}]",
			fields: value, want: "edit (Update)",
		},
		"an item of a list within a second": {
			before: "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:image': {}}}}}}, {` + hold + ", time: " + early + ", fieldsV1: {'f:spec': {'f:d': {}}}}]",
			after:  "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:image': {}}}}}}, {` + hold + ", time: " + early + ", fieldsV1: {'f:spec': {'f:d': {}}}}]",
			fields: item, want: "edit (Update)",
		},
		"another manager takes an item of a list within a second": {
			before: "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:image': {}, 'f:env': {}}}}}}, {` + hold + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:args': {}}}}}}]`,
			after:  "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:env': {}}}}}}, {` + hold + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:args': {}, 'f:image': {}}}}}}]`,
			fields: item, want: "holdfast (Apply)",
		},
		"only the owner changes within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:b': {}}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}]",
			want:   "holdfast (Apply)",
		},
		"the owner removes it within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:c': {}}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:b': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:c': {}}}}]",
			fields: gone, want: "edit (Update)",
		},
		"several managers between two observations": {
			before: "[{" + edit + ", time: " + early + "}, {" + hold + ", time: " + early + "}]",
			after:  "[{" + edit + ", time: " + late + "}, {" + hold + ", time: " + late + "}]", fields: value, want: "edit (Update), holdfast (Apply)",
		},
		"no managers": {fields: value},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after []metav1.ManagedFieldsEntry
			if err := errors.Join(yaml.Unmarshal([]byte(tc.before), &before), yaml.Unmarshal([]byte(tc.after), &after)); err != nil {
				t.Fatal(err)
			}
			if got := FormatManagers(ChangedBy(before, after, tc.fields)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOwnersOf(t *testing.T) {
	const managedFields = `
- {manager: holdfast, operation: Apply, fieldsV1: {'f:spec': {'f:replicas': {}, 'f:containers': {'k:{"name":"app"}': {'.': {}, 'f:name': {}}}}}}
- {manager: kubectl-set, operation: Update, fieldsV1: {'f:spec': {'f:containers': {'k:{"name":"app"}': {'f:image': {}}}}}}
- {manager: sidecars, operation: Apply, fieldsV1: {'f:spec': {'f:containers': {'k:{"name":"proxy"}': {'f:image': {}}, 'k:{"name":"second"}': {'f:image': {}}, 'k:{"name":"third"}': {}}, 'f:ports': {'k:{"port":80,"protocol":"TCP"}': {'f:name': {}}}}}}
- {manager: kubectl-edit, operation: Update, fieldsV1: {'f:spec': {'f:selector': {}, 'f:rules': {}, 'f:volumes': {'k:{"name":"tmp"}': {}}}}}
- {manager: kubectl, operation: Update, subresource: scale, fieldsV1: {'f:spec': {'f:replicas': {}}}}`
	var entries []metav1.ManagedFieldsEntry
	if err := yaml.Unmarshal([]byte(managedFields), &entries); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"spec.containers[app].image":   "kubectl-set (Update)",
		"spec.containers[proxy].image": "sidecars (Apply)",
		"spec.containers[new].image":   "",
		"spec.containers[third].image": "sidecars (Apply)",
		"spec.containers[app].args":    "",
		"spec.ports[80/TCP].name":      "sidecars (Apply)",
		"spec.selector.app":            "kubectl-edit (Update)",
		"spec.rules[0].host":           "kubectl-edit (Update)",
		"spec.volumes[tmp].emptyDir":   "kubectl-edit (Update)",
		"spec.replicas":                "holdfast (Apply), kubectl (Update of scale)",
		"metadata.labels.app":          "",
	} {
		if got := FormatManagers(OwnersOf(entries, []FieldChange{{Path: ParsePath(path)}})); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	both := []FieldChange{{Path: ParsePath("spec.containers[app].image")}, {Path: ParsePath("spec.selector.app")}}
	if got := FormatManagers(OwnersOf(entries, both)); got != "kubectl-set (Update), kubectl-edit (Update)" {
		t.Errorf("two fields: got %q", got)
	}
}
