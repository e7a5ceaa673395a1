package fieldmanager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// TestMerge checks the predicted result of an apply.
func TestMerge(t *testing.T) {
	const live = `
metadata:
  name: web
  managedFields:
  - {manager: holdfast, operation: Apply, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:template": {"f:spec": {"f:nodeSelector": {}, "f:containers":
      {'k:{"name":"app"}': {".": {}, "f:name": {}, "f:image": {}, "f:readinessProbe": {"f:tcpSocket": {"f:port": {}}}, "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}, "f:args": {}}}}}}}}
  - {manager: theirs, operation: Update, apiVersion: apps/v1, fieldsType: FieldsV1, fieldsV1: {"f:spec": {"f:template": {"f:spec": {"f:containers":
      {'k:{"name":"app"}': {"f:env": {'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}}}}, 'k:{"name":"sidecar"}': {".": {}, "f:name": {}, "f:image": {}}}}}}}}
spec:
  template:
    spec:
      nodeSelector: {disk: ssd}
      containers:
      - {name: app, image: "web:1", args: [a], env: [{name: A, value: "1"}, {name: B, value: theirs}], readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 10}}
      - {name: sidecar, image: "theirs:1"}
`
	cases := map[string]struct{ want, containers string }{
		"undeclared fields are removed with their defaults": {
			want:       `{name: app, image: "web:2"}`,
			containers: `[{name: app, image: "web:2", resources: {}, env: [{name: B, value: theirs}]}, {name: sidecar, image: "theirs:1", resources: {}}]`,
		},
		"list elements are merged by name": {
			want: `{name: app, image: "web:1", args: [b], env: [{name: A, value: "2"}, {name: C, value: "3"}], readinessProbe: {tcpSocket: {port: 81}}}`,
			containers: `[{name: app, image: "web:1", resources: {}, args: [b], env: [{name: A, value: "2"}, {name: B, value: theirs}, {name: C, value: "3"}],
  readinessProbe: {tcpSocket: {port: 81}, periodSeconds: 10}}, {name: sidecar, image: "theirs:1", resources: {}}]`,
		},
		"conflicting fields are removed": {
			want: `{name: app, image: "web:1", args: [a], env: [{name: B, valueFrom: {fieldRef: {fieldPath: x}}}], readinessProbe: {tcpSocket: {port: 80}}}`,
			containers: `[{name: app, image: "web:1", resources: {}, args: [a], env: [{name: B, valueFrom: {fieldRef: {fieldPath: x}}}],
  readinessProbe: {tcpSocket: {port: 80}, periodSeconds: 10}}, {name: sidecar, image: "theirs:1", resources: {}}]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var obj appsv1.Deployment
			var want map[string]any
			var containers []any
			for text, into := range map[string]any{live: &obj, "spec: {template: {spec: {containers: [" + tc.want + "]}}}": &want, tc.containers: &containers} {
				if err := yaml.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			before := obj.DeepCopy()
			merged, err := Merge(appsapi.DefaultKeys.FieldManager, want, &obj)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(merged["spec"].(map[string]any)["template"].(map[string]any)["spec"])
			if err != nil {
				t.Fatal(err)
			}
			expected, err := yaml.Marshal(map[string]any{"containers": containers})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(expected), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, &obj); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}
