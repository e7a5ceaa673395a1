package edit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
)

func mustParse(t *testing.T, text string) revision.Spec {
	t.Helper()
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out revision.Spec
	if err := utiljson.Unmarshal(content, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// newPlanner returns a planner for an application with this spec and these earlier revisions.
func newPlanner(t *testing.T, app appkind.Application, now string, earlier ...string) RollbackPlanner {
	t.Helper()
	app.SetNamespace("prod")
	app.SetName("shop")
	b := RollbackPlanner{App: app, CurrentSpec: mustParse(t, now)}
	for i, spec := range earlier {
		b.Revisions = append(b.Revisions, reader.Revision{Number: int64(i + 1), Healthy: true, Spec: mustParse(t, spec)})
	}
	return b
}

// componentsSpec wraps components.
func componentsSpec(components ...string) string {
	return "{components: [" + strings.Join(components, ", ") + "]}"
}

func TestRollbackSpec(t *testing.T) {
	const web1, web2 = `{name: web, service: {image: "web:1"}}`, `{name: web, service: {image: "web:2"}}`
	db := func(size string) string {
		return `{name: db, stateful: {image: "db:1", storage: [{name: data, mountPath: /d, size: ` + size + `}]}}`
	}
	cases := map[string]struct {
		now             string
		earlier         []string // the rollback target is the first one
		rejectedStorage []string
		unhealthy       int // number of a revision that was never healthy
		want            string
		notes           string
	}{
		"an image": {now: componentsSpec(web2), earlier: []string{componentsSpec(web1)}, want: componentsSpec(web1)},
		"fields that are not recorded stay": {
			now: `{suspend: true, deletionPolicy: Delete, revisionHistoryLimit: 3, fromTheFuture: 1, components: [` + web2 + `]}`, earlier: []string{componentsSpec(web1)},
			want: `{suspend: true, deletionPolicy: Delete, revisionHistoryLimit: 3, fromTheFuture: 1, components: [` + web1 + `]}`,
		},
		"operations are not rolled back": {
			now:     `{operations: [{component: a, suspend: true, restartRequestedAt: later}], components: [{name: a, service: {image: "2"}}]}`,
			earlier: []string{componentsSpec(`{name: a, service: {image: "1"}}`, `{name: c, service: {image: "1"}}`)},
			want:    `{operations: [{component: a, suspend: true, restartRequestedAt: later}], components: [{name: a, service: {image: "1"}}, {name: c, service: {image: "1"}}]}`,
		},
		"volumes stay, mount paths are rolled back": {
			now:     componentsSpec(`{name: db, stateful: {image: "db:2", storage: [{name: data, mountPath: /new, size: 2Gi, className: fast}, {name: log, mountPath: /log, size: 1Gi}]}}`),
			earlier: []string{componentsSpec(`{name: db, stateful: {image: "db:1", storage: [{name: tmp, mountPath: /tmp, size: 1Gi}, {name: data, mountPath: /old, size: 1Gi, accessMode: ReadWriteMany}]}}`)},
			want:    componentsSpec(`{name: db, stateful: {image: "db:1", storage: [{name: data, mountPath: /old, size: 2Gi, className: fast}, {name: log, mountPath: /log, size: 1Gi}]}}`),
		},
		"rejected storage is rolled back": {
			now: componentsSpec(db("512Mi"), `{name: kv, stateful: {image: "2", storage: [{name: data, mountPath: /d, size: 3Gi}]}}`), rejectedStorage: []string{"db"},
			earlier: []string{componentsSpec(db("1Gi"), `{name: kv, stateful: {image: "2", storage: [{name: data, mountPath: /d, size: 1Gi}]}}`)},
			want:    componentsSpec(db("1Gi"), `{name: kv, stateful: {image: "2", storage: [{name: data, mountPath: /d, size: 3Gi}]}}`),
		},
		"password sources stay": {
			now:     componentsSpec(`{name: db, stateful: {image: "db:2", credentials: [{key: password, env: B, secretRef: {name: new, key: p}}]}}`),
			earlier: []string{componentsSpec(`{name: db, stateful: {image: "db:1", credentials: [{key: password, env: A}]}}`)},
			want:    componentsSpec(`{name: db, stateful: {image: "db:1", credentials: [{key: password, env: A, secretRef: {name: new, key: p}}]}}`),
		},
		"resourceName of data stays": {
			now:     componentsSpec(`{name: db, resourceName: new, stateful: {image: "db:2"}}`, `{name: web, resourceName: new, service: {image: "2"}}`),
			earlier: []string{componentsSpec(`{name: db, stateful: {image: "db:1"}}`, `{name: web, service: {image: "1"}}`)},
			want:    componentsSpec(`{name: db, resourceName: new, stateful: {image: "db:1"}}`, `{name: web, service: {image: "1"}}`),
		},
		"component with data was added later": {
			now: componentsSpec(web1, db("1Gi")), earlier: []string{componentsSpec(web1)}, want: componentsSpec(web1),
			notes: `"db" is not in revision 1: its pods are deleted. Its volumes and credentials are retained and reused when it is added again.`,
		},
		"component was removed after a volume expansion": {
			now: componentsSpec(web1), earlier: []string{componentsSpec(web1, db("1Gi")), componentsSpec(web1, db("3Gi")), componentsSpec(web1, db("2Gi")), componentsSpec(web1)}, want: componentsSpec(web1, db("3Gi")),
			notes: `"db" is added again with its retained data: PersistentVolumeClaim data-shop-db-0.`,
		},
		"component was removed after a failed volume expansion": {
			now: componentsSpec(web1), earlier: []string{componentsSpec(web1, db("1Gi")), componentsSpec(web1, db("8Gi")), componentsSpec(web1)}, unhealthy: 2, want: componentsSpec(web1, db("1Gi")),
			notes: `"db" is added again with its retained data: PersistentVolumeClaim data-shop-db-0.`,
		},
		"component was removed and its data deleted": {
			now: componentsSpec(web1), earlier: []string{componentsSpec(web1, `{name: kv, stateful: {image: x, storage: [{name: data, mountPath: /d, size: 1Gi}]}}`)},
			want:  componentsSpec(web1, `{name: kv, stateful: {image: x, storage: [{name: data, mountPath: /d, size: 1Gi}]}}`),
			notes: `"kv" is added again. status.retained lists no data for it, so it starts with new, empty volumes.`,
		},
		"rename was reverted": {
			now:     componentsSpec(db("2Gi")),
			earlier: []string{componentsSpec(strings.Replace(db("1Gi"), "name: db", "name: database, renamedFrom: db", 1))},
			want:    componentsSpec(strings.Replace(db("2Gi"), "name: db", "name: database, renamedFrom: db", 1)),
			notes:   `"db" is renamed back to "database"; renamedFrom is set, so the component keeps its volumes and credentials.`,
		},
		"component was renamed twice": {
			now:     componentsSpec(strings.Replace(db("2Gi"), "name: db", "name: store, renamedFrom: database", 1)),
			earlier: []string{componentsSpec(db("1Gi")), componentsSpec(strings.Replace(db("1Gi"), "name: db", "name: database, renamedFrom: db", 1))},
			want:    componentsSpec(strings.Replace(db("2Gi"), "name: db", "name: db, renamedFrom: store", 1)),
			notes:   `"store" is renamed back to "db"; renamedFrom is set, so the component keeps its volumes and credentials.`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			app := &appsapi.AppStack{}
			app.Status.Retained = []appsapi.Retained{{Kind: "PersistentVolumeClaim", Name: "data-shop-db-0", Component: "db"}}
			for _, c := range tc.rejectedStorage {
				app.Status.Components = append(app.Status.Components, appsapi.ComponentStatus{Name: c, Reason: "StorageChangeRejected"})
			}
			b := newPlanner(t, app, tc.now, tc.earlier...)
			if tc.unhealthy > 0 {
				b.Revisions[tc.unhealthy-1].Healthy = false
			}
			before := mustParse(t, tc.now)
			d, err := b.PlanFor(b.Revisions[0])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(mustParse(t, tc.want), d.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if got := strings.Join(d.Notes, "\n"); got != tc.notes {
				t.Errorf("notes\n%s\nwant\n%s", got, tc.notes)
			}
			if diff := cmp.Diff(before, b.CurrentSpec); diff != "" {
				t.Errorf("the current spec was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestRollbackKeepsCloudManagerDatabase(t *testing.T) {
	const now = `{deletionPolicy: Delete, front: {deployment: {image: "f:2", replicas: 2}}, identity: {deployment: {image: "i:2"}},
	  db: {rootPass: geheim, statefulSet: {image: "mariadb:11", name: new, storage: {size: 2Gi, class: fast}}}}`
	const earlier = `{front: {deployment: {image: "f:1"}}, identity: {deployment: {image: "i:1"}},
	  db: {rootPasswordSecretRef: {name: s, key: k}, statefulSet: {image: "mariadb:10", name: old, storage: {size: 1Gi}}}}`
	const want = `{deletionPolicy: Delete, front: {deployment: {image: "f:1"}}, identity: {deployment: {image: "i:1"}},
	  db: {rootPass: geheim, statefulSet: {image: "mariadb:11", name: old, storage: {size: 2Gi, class: fast}}}}`
	app := &appsapi.CloudManager{}
	b := newPlanner(t, app, now, earlier)
	d, err := b.PlanFor(b.Revisions[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mustParse(t, want), d.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	later := newPlanner(t, app, strings.Replace(now, "rootPass: geheim", "backup: {keep: 7}", 1), earlier)
	if _, err := later.PlanFor(later.Revisions[0]); err == nil || !strings.Contains(err.Error(), `(unknown field "backup")`) {
		t.Errorf("unknown field: got %v", err)
	}
	app.Status.Components = []appsapi.ComponentStatus{{Name: "db", Reason: "StorageChangeRejected"}}
	if d, err = b.PlanFor(b.Revisions[0]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mustParse(t, strings.Replace(want, "size: 2Gi, class: fast", "size: 1Gi", 1)), d.Spec); diff != "" {
		t.Errorf("spec with rejected storage (-want +got):\n%s", diff)
	}
}

func TestRollbackRejections(t *testing.T) {
	cases := map[string]struct{ now, earlier, want string }{
		"data would be deleted": {
			now:     `{deletionPolicy: Delete, components: [{name: web, service: {image: x}}, {name: db, stateful: {image: x}}]}`,
			earlier: `{components: [{name: web, service: {image: x}}]}`,
			want:    `revision 1 has no component "db", and deletionPolicy Delete would delete its data; retain the data first: kubectl patch appstack shop -n prod --type=merge -p '{"spec":{"deletionPolicy":"Retain"}}'`,
		},
		"another type": {
			now: `{components: [{name: a, service: {image: x}}]}`, earlier: `{components: [{name: a, job: {image: x}}]}`,
			want: `component "a" has type service and had type job in revision 1, but the type cannot change; remove the component from the spec first (deletionPolicy Retain keeps its data), then roll back`,
		},
		"unknown component type": {
			now: `{components: [{name: a, cache: {engine: Redis}}]}`, earlier: `{components: [{name: a, service: {image: x}}]}`,
			want: `component "a" of AppStack prod/shop has a field that this version of the plugin does not support (cache), so a rollback could lose data; install the same version as the operator (kubectl holdfast version shows both versions)`,
		},
		"unknown field of a component with data": {
			now: `{components: [{name: a, stateful: {image: x}}]}`, earlier: `{components: [{name: a, stateful: {image: x, backup: {keep: 7}}}]}`,
			want: `component "a" of AppStack prod/shop has a field that this version of the plugin does not support (unknown field "backup"), so a rollback could lose data; install the same version as the operator (kubectl holdfast version shows both versions)`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newPlanner(t, &appsapi.AppStack{}, tc.now, tc.earlier)
			if _, err := b.PlanFor(b.Revisions[0]); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

// Without a number, Plan picks the newest healthy revision that differs from the current spec.
func TestPlanPicksRevision(t *testing.T) {
	web := func(image, more string) string {
		return componentsSpec(`{name: web` + more + `, service: {image: "` + image + `"}}`)
	}
	b := newPlanner(t, &appsapi.AppStack{}, web("3", ", dependsOn: []"), web("1", ""), web("2", ""), web("4", ""), web("3", ""), web("3", ", dependsOn: []"))
	b.Revisions[2].Healthy, b.Revisions[4].Current = false, true
	for number, want := range map[int64]int64{0: 2, 3: 3, 1: 1} {
		d, err := b.Plan(number)
		if err != nil {
			t.Fatal(err)
		}
		if d.Target.Number != want {
			t.Errorf("requested %d: got revision %d, want %d", number, d.Target.Number, want)
		}
	}
	if _, err := b.Plan(9); err == nil {
		t.Error("got no error for revision 9, which does not exist")
	}
	b.Revisions = b.Revisions[2:]
	const want = "AppStack prod/shop has no earlier revision that was healthy and differs from the current spec; choose a revision with " +
		"--to-revision, as listed by kubectl holdfast history shop -n prod"
	if _, err := b.Plan(0); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
