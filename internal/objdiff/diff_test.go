package objdiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// parseManifest is a manifest as a client reads it.
func parseManifest(t *testing.T, manifest string) map[string]any {
	t.Helper()
	if manifest == "" {
		return nil
	}
	var out map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDiff(t *testing.T) {
	cases := map[string]struct {
		kind, before, after string
		want                []string
	}{
		"nothing":       {before: "{a: 1}", after: "{a: 1}"},
		"a value":       {before: "{spec: {replicas: 2}}", after: "{spec: {replicas: 3}}", want: []string{"spec.replicas: 2 -> 3"}},
		"set":           {before: "{spec: {}}", after: "{spec: {paused: true}}", want: []string{"spec.paused: (none) -> true"}},
		"removed":       {before: "{spec: {paused: true}}", after: "{}", want: []string{"spec.paused: true -> (none)"}},
		"null is there": {before: "{a: null}", after: "{}", want: []string{"a: null -> (none)"}},
		"bookkeeping": {
			before: "{kind: A, metadata: {resourceVersion: '1', generation: 1, managedFields: [{manager: a}]}}",
			after:  "{kind: A, metadata: {resourceVersion: '2', generation: 2, managedFields: [{manager: b}]}}",
		},
		"a new object": {after: "{kind: A, metadata: {name: a, uid: b, labels: {x: z}}, data: {}}",
			want: []string{"data: (none) -> {}", `metadata.labels.x: (none) -> "z"`}},
		"keys with dots": {before: "{metadata: {labels: {app.kubernetes.io/name: a}}}", after: "{metadata: {labels: {app.kubernetes.io/name: b}}}",
			want: []string{`metadata.labels['app.kubernetes.io/name']: "a" -> "b"`}},
		"plain lists are read as one": {before: "{args: [a, b]}", after: "{args: [b]}", want: []string{`args: ["a","b"] -> ["b"]`}},
		"an item before others": {
			before: "{c: [{name: web, image: a}]}", after: "{c: [{name: proxy, image: p}, {name: web, image: b}]}",
			want: []string{`c[name=web].image: "a" -> "b"`, `c[name=proxy].image: (none) -> "p"`, `c[name=proxy].name: (none) -> "proxy"`},
		},
		"another order": {before: "{c: [{name: a}, {name: b}]}", after: "{c: [{name: b}, {name: a}]}",
			want: []string{`c[order]: ["a","b"] -> ["b","a"]`}},
		"conditions": {before: "{conditions: [{type: Ready, status: 'False'}]}", after: "{conditions: [{type: Ready, status: 'True'}]}",
			want: []string{`conditions[type=Ready].status: "False" -> "True"`}},
		"mounts of one volume": {before: "{m: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}", after: "{m: [{name: v, mountPath: /a}]}",
			want: []string{`m[mountPath=/b].mountPath: "/b" -> (none)`, `m[mountPath=/b].name: "v" -> (none)`}},
		"items without a name": {before: "{l: [{a: 1}, {a: 1}]}", after: "{l: [{a: 1}, {a: 2}]}", want: []string{"l[1].a: 1 -> 2"}},
		"another shape":        {before: "{a: {b: 1}}", after: "{a: x}", want: []string{"a.b: 1 -> (none)", `a: (none) -> "x"`}},
		"items of an empty list": {before: "{l: []}", after: "{l: [{name: a, x: 1}]}",
			want: []string{`l[name=a].name: (none) -> "a"`, "l[name=a].x: (none) -> 1"}},

		"a Secret": {kind: "Secret",
			before: "{type: a, data: {k: b2xk, gone: b2xk}, metadata: {labels: {a: b}}}",
			after:  "{type: b, data: {k: bmV3}, stringData: {new: new}, metadata: {labels: {a: c}, annotations: {last: 'k: new', apps.holdfast.dev/adopt: 'true'}}}",
			want: []string{"data.gone: removed", "data.k: changed", `metadata.annotations['apps.holdfast.dev/adopt']: (none) -> "true"`, "metadata.annotations.last: set",
				`metadata.labels.a: "b" -> "c"`, "stringData.new: set", `type: "a" -> "b"`},
		},
		"a CloudManager": {kind: "CloudManager",
			before: "{spec: {db: {rootPass: '123456', x: 1}}, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: 'rootPass 123456'}}}",
			after:  "{spec: {db: {rootPass: '654321', x: 2}}, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: 'rootPass 654321'}}}",
			want:   []string{"metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']: changed", "spec.db.rootPass: changed", "spec.db.x: 1 -> 2"},
		},
		"a rootPass anywhere": {kind: "ControllerRevision",
			before: "{data: {a: [[{rootPass: {x: '123456'}}]]}}", after: "{data: {a: [[{rootPass: [{z: '654321'}]}], '654321x']}}",
			want: []string{"data.a[0][0].rootPass.x: removed", "data.a[0][0].rootPass[0].z: set", `data.a[1]: (none) -> "654321x"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Diff(tc.kind, parseManifest(t, tc.before), parseManifest(t, tc.after)) {
				got = append(got, f.Text(0))
				if f.Redacted && (f.Old != nil || f.New != nil) {
					t.Errorf("%s has its values", f.Path)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFieldChangeText(t *testing.T) {
	long := strings.Repeat("a", 100)
	cases := map[string]struct {
		field FieldChange
		width int
		want  string
	}{
		"where they differ": {field: FieldChange{Path: "p", Type: Changed, Old: long + "x" + long, New: long + "y" + long}, width: 50,
			want: "p: …aaaaaaaxaaaaaaaaaaaaa… -> …aaaaaaayaaaaaaaaaaaaa…"},
		"narrower than sense": {field: FieldChange{Path: strings.Repeat("p", 60), Type: Set, New: long}, width: 50,
			want: strings.Repeat("p", 60) + `: (none) -> "aaaaaaaaaaa…`},
		"no HTML":      {field: FieldChange{Path: "p", Type: Set, New: "<&>"}, want: `p: (none) -> "<&>"`},
		"on one line":  {field: FieldChange{Path: "p", Type: Set, New: "a\nb"}, want: `p: (none) -> "a\nb"`},
		"no secret":    {field: FieldChange{Path: "p", Type: Changed, Redacted: true}, width: 10, want: "p: changed"},
		"short enough": {field: FieldChange{Path: "p", Type: Changed, Old: "a", New: "b"}, width: 20, want: `p: "a" -> "b"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.field.Text(tc.width); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
