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
	value := []FieldChange{{Path: "data.a", Type: Changed, segments: []segment{{key: "data"}, {key: "a"}}}}
	gone := []FieldChange{{Path: "data.a", Type: Removed, segments: value[0].segments}}
	item := []FieldChange{{Path: "spec.c[name=web].image", Type: Changed, segments: []segment{{key: "spec"}, {key: "c"}, {"name=web", true}, {key: "image"}}}}
	cases := map[string]struct {
		before, after string
		fields        []FieldChange
		want          string
	}{
		"who made it":    {after: "[{" + edit + ", time: " + early + "}]", want: "edit (Update)"},
		"a later time":   {before: "[{" + edit + ", time: " + early + "}]", after: "[{" + edit + ", time: " + late + "}]", fields: value, want: "edit (Update)"},
		"not the others": {before: "[{" + edit + ", time: " + early + "}]", after: "[{" + edit + ", time: " + early + "}, {" + hold + ", time: " + early + "}]", fields: value, want: "holdfast (Apply)"},
		"status apart": {
			before: "[{" + hold + ", time: " + early + "}]",
			after:  "[{" + hold + ", time: " + early + "}, {" + hold + ", subresource: status, time: " + early + "}]", fields: value, want: "holdfast (Apply of status)",
		},
		"a field changes hands within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:b': {}}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}]",
			fields: value, want: "holdfast (Apply)",
		},
		"its owner writes it again within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {}}}]",
			fields: value, want: "edit (Update)",
		},
		"an item of a list within a second": {
			before: "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:image': {}}}}}}, {` + hold + ", time: " + early + ", fieldsV1: {'f:spec': {'f:d': {}}}}]",
			after:  "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:image': {}}}}}}, {` + hold + ", time: " + early + ", fieldsV1: {'f:spec': {'f:d': {}}}}]",
			fields: item, want: "edit (Update)",
		},
		"an item of a list changes hands within a second": {
			before: "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:image': {}, 'f:env': {}}}}}}, {` + hold + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:args': {}}}}}}]`,
			after:  "[{" + edit + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:env': {}}}}}}, {` + hold + ", time: " + early + `, fieldsV1: {'f:spec': {'f:c': {'k:{"name":"web"}': {'f:args': {}, 'f:image': {}}}}}}]`,
			fields: item, want: "holdfast (Apply)",
		},
		"nothing but the owner changes within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:b': {}}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}]",
			want:   "holdfast (Apply)",
		},
		"its owner removes it within a second": {
			before: "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:a': {}, 'f:b': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:c': {}}}}]",
			after:  "[{" + edit + ", time: " + early + ", fieldsV1: {'f:data': {'f:b': {}}}}, {" + hold + ", time: " + early + ", fieldsV1: {'f:data': {'f:c': {}}}}]",
			fields: gone, want: "edit (Update)",
		},
		"several, while nobody looked": {
			before: "[{" + edit + ", time: " + early + "}, {" + hold + ", time: " + early + "}]",
			after:  "[{" + edit + ", time: " + late + "}, {" + hold + ", time: " + late + "}]", fields: value, want: "edit (Update), holdfast (Apply)",
		},
		"nobody knows": {fields: value},
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
