package objdiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// parseManifest decodes a manifest as a client does.
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

func TestDiffObjects(t *testing.T) {
	cases := map[string]struct {
		kind, before, after string
		want                []string
	}{
		"nothing":         {before: "{a: 1}", after: "{a: 1}"},
		"changed":         {before: "{spec: {replicas: 2}}", after: "{spec: {replicas: 3}}", want: []string{"spec.replicas: 2 -> 3"}},
		"set":             {before: "{spec: {}}", after: "{spec: {paused: true}}", want: []string{"spec.paused: (none) -> true"}},
		"removed":         {before: "{spec: {paused: true}}", after: "{}", want: []string{"spec.paused: true -> (none)"}},
		"null is a value": {before: "{a: null}", after: "{}", want: []string{"a: null -> (none)"}},
		"server fields": {
			before: "{kind: A, metadata: {resourceVersion: '1', generation: 1, managedFields: [{manager: a}]}}",
			after:  "{kind: A, metadata: {resourceVersion: '2', generation: 2, managedFields: [{manager: b}]}}",
		},
		"a new object": {after: "{kind: A, metadata: {name: a, uid: b, labels: {x: z}}, data: {}}",
			want: []string{"data: (none) -> {}", `metadata.labels.x: (none) -> "z"`}},
		"keys with dots": {before: "{metadata: {labels: {app.kubernetes.io/name: a}}}", after: "{metadata: {labels: {app.kubernetes.io/name: b}}}",
			want: []string{`metadata.labels[app.kubernetes.io/name]: "a" -> "b"`}},
		"a list of plain values is one change": {before: "{args: [a, b]}", after: "{args: [b]}", want: []string{`args: ["a","b"] -> ["b"]`}},
		"an inserted item": {
			before: "{c: [{name: web, image: a}]}", after: "{c: [{name: proxy, image: p}, {name: web, image: b}]}",
			want: []string{`c[web].image: "a" -> "b"`, `c[proxy].image: (none) -> "p"`, `c[proxy].name: (none) -> "proxy"`},
		},
		"another order": {before: "{c: [{name: a}, {name: b}]}", after: "{c: [{name: b}, {name: a}]}",
			want: []string{`c: ["a","b"] -> ["b","a"]`}},
		"conditions": {before: "{conditions: [{type: Ready, status: 'False'}]}", after: "{conditions: [{type: Ready, status: 'True'}]}",
			want: []string{`conditions[Ready].status: "False" -> "True"`}},
		"mounts of one volume": {before: "{m: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]}", after: "{m: [{name: v, mountPath: /a}]}",
			want: []string{`m[/b].mountPath: "/b" -> (none)`, `m[/b].name: "v" -> (none)`}},
		"items without a name": {before: "{l: [{a: 1}, {a: 1}]}", after: "{l: [{a: 1}, {a: 2}]}", want: []string{"l[1].a: 1 -> 2"}},
		"another type":         {before: "{a: {b: 1}}", after: "{a: x}", want: []string{"a.b: 1 -> (none)", `a: (none) -> "x"`}},
		"items of an empty list": {before: "{l: []}", after: "{l: [{name: a, x: 1}]}",
			want: []string{`l[a].name: (none) -> "a"`, "l[a].x: (none) -> 1"}},

		"a Secret": {kind: "Secret",
			before: "{type: a, data: {k: b2xk, gone: b2xk}, metadata: {labels: {a: b}}}",
			after:  "{type: b, data: {k: bmV3}, stringData: {new: new}, metadata: {labels: {a: c}, annotations: {last: 'k: new', apps.holdfast.dev/adopt: 'true'}}}",
			want: []string{"data.gone: removed", "data.k: changed", `metadata.annotations[apps.holdfast.dev/adopt]: (none) -> "true"`, "metadata.annotations.last: set",
				`metadata.labels.a: "b" -> "c"`, "stringData.new: set", `type: "a" -> "b"`},
		},
		"a CloudManager": {kind: "CloudManager",
			before: "{spec: {db: {rootPass: '123456', x: 1}}, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: 'rootPass 123456'}}}",
			after:  "{spec: {db: {rootPass: '654321', x: 2}}, metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: 'rootPass 654321'}}}",
			want:   []string{"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]: changed", "spec.db.rootPass: changed", "spec.db.x: 1 -> 2"},
		},
		"a rootPass anywhere": {kind: "ControllerRevision",
			before: "{data: {a: [[{rootPass: {x: '123456'}}]]}}", after: "{data: {a: [[{rootPass: [{z: '654321'}]}], '654321x']}}",
			want: []string{"data.a[0][0].rootPass.x: removed", "data.a[0][0].rootPass[0].z: set", `data.a[1]: (none) -> "654321x"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range DiffObjects(tc.kind, parseManifest(t, tc.before), parseManifest(t, tc.after)) {
				got = append(got, f.Text(0))
				if f.Redacted && (f.Old != nil || f.New != nil) {
					t.Errorf("%s is redacted and has values", f.Path)
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
		"around the difference": {field: FieldChange{Path: ParsePath("p"), Type: Changed, Old: long + "x" + long, New: long + "y" + long}, width: 50,
			want: "p: …aaaaaaaxaaaaaaaaaaaaa… -> …aaaaaaayaaaaaaaaaaaaa…"},
		"width below the minimum": {field: FieldChange{Path: ParsePath(strings.Repeat("p", 60)), Type: Set, New: long}, width: 50,
			want: strings.Repeat("p", 60) + `: (none) -> "aaaaaaaaaaa…`},
		"no HTML escapes": {field: FieldChange{Path: ParsePath("p"), Type: Set, New: "<&>"}, want: `p: (none) -> "<&>"`},
		"on one line":     {field: FieldChange{Path: ParsePath("p"), Type: Set, New: "a\nb"}, want: `p: (none) -> "a\nb"`},
		"redacted":        {field: FieldChange{Path: ParsePath("p"), Type: Changed, Redacted: true}, width: 10, want: "p: changed"},
		"short enough":    {field: FieldChange{Path: ParsePath("p"), Type: Changed, Old: "a", New: "b"}, width: 20, want: `p: "a" -> "b"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.field.Text(tc.width); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestDiffOfWholeValues(t *testing.T) {
	everything := func(Path) bool { return true }
	items := func(at Path) bool { return at.Last().Item }
	cases := map[string]struct {
		before, after string
		whole         func(Path) bool
		want          []string
	}{
		"a new map":           {before: "{}", after: "{a: {b: 1}}", whole: everything, want: []string{`a: (none) -> {"b":1}`}},
		"a new map in parts":  {before: "{}", after: "{a: {b: 1}}", whole: items, want: []string{"a.b: (none) -> 1"}},
		"a new item":          {before: "{}", after: "{env: [{name: A, value: x}]}", whole: items, want: []string{`env[A]: (none) -> {"name":"A","value":"x"}`}},
		"a list without keys": {before: "{l: [{a: {}}]}", after: "{l: [{a: {b: 1}}]}", whole: items, want: []string{`l: [{"a":{}}] -> [{"a":{"b":1}}]`}},
		"an atomic list":      {before: "{tolerations: [{key: a, value: x}]}", after: "{tolerations: [{key: a, value: z}]}", whole: everything, want: []string{`tolerations: [{"key":"a","value":"x"}] -> [{"key":"a","value":"z"}]`}},
		"likely keys":         {before: "{tolerations: [{key: a, value: x}]}", after: "{tolerations: [{key: a, value: z}]}", whole: items, want: []string{`tolerations[a].value: "x" -> "z"`}},
		"ports of two protocols": {before: "{ports: [{port: 53, protocol: TCP}]}", after: "{ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP, name: dns}]}", whole: items,
			want: []string{`ports[53/UDP]: (none) -> {"name":"dns","port":53,"protocol":"UDP"}`}},
		"a port without protocol": {before: "{ports: [{port: 80}]}", after: "{ports: [{port: 80, name: http}]}", whole: everything, want: []string{`ports[80].name: (none) -> "http"`}},
		"another order":           {before: "{env: [{name: A}, {name: B}]}", after: "{env: [{name: B}, {name: A}]}", whole: everything},
		"another type":            {before: "{a: {b: 1}}", after: "{a: x}", whole: everything, want: []string{`a: {"b":1} -> "x"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range Diff(parseManifest(t, tc.before), parseManifest(t, tc.after), tc.whole) {
				got = append(got, f.Text(0))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
