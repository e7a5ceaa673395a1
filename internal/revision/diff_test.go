package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func parseSpec(t *testing.T, text string) Spec {
	t.Helper()
	var out Spec
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDiff(t *testing.T) {
	cases := map[string]struct {
		before, after string
		want          []string
	}{
		"no change": {before: `{components: [{name: a, service: {image: x}}]}`, after: `{components: [{name: a, service: {image: x}}]}`},
		"other order": {
			before: `{components: [{name: a, service: {image: x}}, {name: b, job: {image: y}}]}`,
			after:  `{components: [{name: b, job: {image: y}}, {name: a, service: {image: x}}]}`,
		},
		"fields of a component": {
			before: `{components: [{name: web, service: {image: "nginx:1", replicas: 2, service: {type: ClusterIP}}}]}`,
			after:  `{components: [{name: web, dependsOn: [db], service: {image: "nginx:2", service: {type: Headless}, update: {minReadySeconds: 5}}}]}`,
			want: []string{
				`web: dependsOn set to ["db"]`, "web: image nginx:1 -> nginx:2", "web: replicas removed, was 2",
				"web: service.type ClusterIP -> Headless", "web: update.minReadySeconds set to 5",
			},
		},
		"component renamed": {
			before: `{components: [{name: web, service: {image: x}}, {name: db, stateful: {image: "x:1"}}]}`,
			after:  `{components: [{name: web, bindings: [{component: store}], service: {image: x}}, {name: store, renamedFrom: db, stateful: {image: "x:2"}}]}`,
			want:   []string{"store: renamed from db", "web: bindings[store] added", "store: image x:1 -> x:2"},
		},
		"renamed before": {
			before: `{components: [{name: store, renamedFrom: db, service: {image: x}}, {name: b, service: {image: x}}]}`,
			after:  `{components: [{name: store, service: {image: x}}, {name: c, renamedFrom: other, service: {image: x}}]}`,
			want:   []string{"store: renamedFrom removed, was db", "c: added", "b: removed"},
		},
		"components added and removed": {
			before: `{components: [{name: a, service: {image: x}}, {name: b, service: {image: x}}]}`,
			after:  `{components: [{name: c, job: {image: x}}, {name: b, service: {image: x}}]}`,
			want:   []string{"c: added", "a: removed"},
		},
		"named entries": {
			before: `{components: [{name: a, service: {env: [{name: A, value: "1"}, {name: B, value: "2"}], ports: [{port: 80}]}}]}`,
			after:  `{components: [{name: a, service: {env: [{name: B, value: "3"}, {name: C, valueFrom: {fieldRef: {fieldPath: x}}}], ports: [{port: 80}, {port: 81}]}}]}`,
			want: []string{
				"a: env[B].value 2 -> 3", "a: env[C] added", "a: env[A] removed, was 1", "a: ports[81] added",
			},
		},
		"first entry of a list": {
			before: `{components: [{name: a, service: {image: x}}]}`,
			after:  `{components: [{name: a, service: {image: x, env: [{name: A, value: "two words"}]}}]}`,
			want:   []string{`a: env[A] set to "two words"`},
		},
		"files": {
			before: `{components: [{name: a, service: {config: {files: [{path: /etc/a, content: "one\ntwo\n"}]}}}]}`,
			after:  `{components: [{name: a, service: {config: {files: [{path: /etc/a, content: "one\n"}]}}}]}`,
			want:   []string{"a: config.files[/etc/a].content changed, 2 lines -> 1 line"},
		},
		"one port, two protocols": {
			before: `{components: [{name: a, service: {ports: [{port: 53, protocol: TCP}]}}]}`,
			after:  `{components: [{name: a, service: {ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}}]}`,
			want:   []string{"a: ports[53/UDP] added"},
		},
		"CloudManager with its password": {
			before: `{deletionPolicy: Retain, front: {deployment: {image: "nginx:1"}}, db: {rootPass: geheim, statefulSet: {image: m, storage: {size: 1Gi}}}}`,
			after:  `{front: {deployment: {image: "nginx:2"}}, db: {rootPass: anders, statefulSet: {image: m, storage: {size: 2Gi}}}}`,
			want: []string{
				"db: rootPass (hidden) -> (hidden)", "db: storage.size 1Gi -> 2Gi", "deletionPolicy removed, was Retain", "front: image nginx:1 -> nginx:2",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Diff(parseSpec(t, tc.before), parseSpec(t, tc.after)) {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	got := Redact(parseSpec(t, `{db: {rootPass: geheim, statefulSet: {image: m}}}`))
	if diff := cmp.Diff(parseSpec(t, `{db: {rootPass: (hidden), statefulSet: {image: m}}}`), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
