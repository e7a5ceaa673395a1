package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

func TestOptionalChildren(t *testing.T) {
	with, without := service("web", "1", withPort), service("web", "1")
	runPlanCases(t, map[string]planCase{
		"Service without ports is deleted": {
			applied: stack(with), spec: stack(without),
			want: []string{"web: apply Deployment shop-web; remove Service shop-web"},
		},
		"Service is deleted while the component waits": {
			applied: stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))), mutations: []mutation{mutateChild("shop-db", unready)},
			spec: stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want: []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template; remove Service shop-web; wait for db"},
		},
		"terminating Service is not deleted again": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", terminating[*corev1.Service]())}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"Service of another owner stays": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", ownedByOther[*corev1.Service])}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"Service without an owner stays": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", unowned[*corev1.Service])}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"Service with prune disabled stays": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", annotated[*corev1.Service]("apps.holdfast.dev/prune", "disabled"))}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"Service of another component stays": {
			applied: stack(with, service("api", "1")), spec: stack(with, service("api", "1")),
			want: []string{"web: apply Deployment shop-web, Service shop-web", "api: apply Deployment shop-api"},
		},
	})
}

func TestRemovedComponents(t *testing.T) {
	web, db := service("web", "1"), service("db", "1", withPort)
	user := service("web", "1", dependsOn("db"))
	runPlanCases(t, map[string]planCase{
		"no dependents": {
			applied: stack(web, db), spec: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"Service is deleted after the pods are gone": {
			applied: stack(web, db), mutations: []mutation{deleteChild("Deployment", "shop-db")}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Service shop-db of db"},
		},
		"prune disabled": {
			applied: stack(web, service("db", "1")), mutations: []mutation{mutateChild("shop-db", annotated[*appsv1.Deployment]("apps.holdfast.dev/prune", "disabled"))}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web"},
		},
		"controlled by another owner": {
			applied: stack(web, service("db", "1")), mutations: []mutation{mutateChild("shop-db", ownedByOther[*appsv1.Deployment])}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web"},
		},
		"running pods depend on it": {
			applied: stack(user, db), spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`},
		},
		"terminating pods depended on it": {
			applied: stack(web, db), mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment]("apps.holdfast.dev/previous-depends-on", "db"))}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`},
		},
		"dependent pods were replaced and the record is gone": {
			applied: stack(user, db), mutations: []mutation{rollOut("web", web), rollOut("web", web)}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"pods that wait for another component still depend on it": {
			applied: stack(user, db), spec: stack(service("web", "2", dependsOn("cache")), service("cache", "1")),
			want: []string{
				"web: apply Deployment shop-web without its pod template; wait for cache", "cache: apply Deployment shop-cache",
				`keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`,
			},
		},
		"first of several dependents is named": {
			applied: stack(service("web", "1", dependsOn("db")), service("api", "1", dependsOn("db")), db), spec: stack(web, service("api", "1")),
			want: []string{"web: apply Deployment shop-web", "api: apply Deployment shop-api", `keep db: Component "db" was removed from the spec and is kept until no pod of "api" depends on it`},
		},
		"suspended component depends on it": {
			applied: stack(user, db, service("api", "1")), spec: stack(service("web", "1", suspended), service("api", "1")),
			want: []string{"api: apply Deployment shop-api", `keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`},
		},
		"workload without its owner reference depends on it": {
			applied: stack(user, db), mutations: []mutation{mutateChild("shop-web", unowned[*appsv1.Deployment])}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`},
		},
		"active job depends on it": {
			applied: stack(job("migrate", "1", dependsOn("db")), db), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(job("migrate", "1")),
			want: []string{"migrate: apply Job migrate:1", `keep db: Component "db" was removed from the spec and is kept until no pod of "migrate" depends on it`},
		},
		"finished job depends on nothing": {
			applied: stack(job("migrate", "1", dependsOn("db")), service("db", "1")), spec: stack(job("migrate", "1")),
			want: []string{"migrate: apply Job migrate:1", "prune Deployment shop-db of db"},
		},
		"removed dependency is deleted after its removed dependent": {
			applied: stack(user, service("db", "1"), service("api", "1")), spec: stack(service("api", "1")),
			want: []string{"api: apply Deployment shop-api", "prune Deployment shop-web of web", `keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`},
		},
		"removed components in a cycle are deleted together": {
			applied: stack(user, service("db", "1", dependsOn("web")), service("api", "1")), spec: stack(service("api", "1")),
			want: []string{"api: apply Deployment shop-api", "prune Deployment shop-db of db", "prune Deployment shop-web of web"},
		},
		"cycle stays while a third component depends on it": {
			applied: stack(user, service("db", "1", dependsOn("web")), service("api", "1", dependsOn("web"))), spec: stack(service("api", "1")),
			want: []string{
				"api: apply Deployment shop-api",
				`keep db: Component "db" was removed from the spec and is kept until no pod of "api" depends on it`,
				`keep web: Component "web" was removed from the spec and is kept until no pod of "api" depends on it`,
			},
		},
		"cycle through a component of the spec does not count": {
			applied: stack(user, service("db", "1", dependsOn("web"))), spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`},
		},
		"component label is missing": {
			applied: stack(web, service("db", "1")), spec: stack(web),
			mutations: []mutation{mutateChild("shop-db", func(d *appsv1.Deployment) { d.Labels = nil }), mutateChild("shop-web", unready)},
			want:      []string{"web: apply Deployment shop-web", "prune Deployment shop-db of "},
		},
	})
}

func TestTerminatingChildren(t *testing.T) {
	web, db := service("web", "1"), service("db", "1", withPort)
	runPlanCases(t, map[string]planCase{
		"with finalizers": {
			applied: stack(web, db), spec: stack(web),
			mutations: []mutation{mutateChild("shop-db", terminating[*appsv1.Deployment]("example.com/one", "foregroundDeletion", "example.com/two"))},
			want: []string{
				"web: apply Deployment shop-web",
				"keep db: Waiting for Deployment shop/shop-db to be deleted (deletion requested at 2026-01-02T12:00:00Z): blocked by finalizers example.com/one, example.com/two",
			},
		},
		"with finalizers, component stays in the spec": {
			applied: stack(web, db), spec: stack(web, service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", terminating[*corev1.Service]("example.com/one"))},
			want: []string{
				"web: apply Deployment shop-web", "db: apply Deployment shop-db",
				"keep db: Waiting for Service shop/shop-db to be deleted (deletion requested at 2026-01-02T12:00:00Z): blocked by finalizers example.com/one",
			},
		},
		"without finalizers": {
			applied: stack(web, db), spec: stack(web),
			mutations: []mutation{mutateChild("shop-db", terminating[*appsv1.Deployment]("foregroundDeletion")), mutateChild("shop-db", terminating[*corev1.Service]())},
			want:      []string{"web: apply Deployment shop-web"},
		},
		"run of a job": {
			applied: stack(web, job("migrate", "1")), spec: stack(web, job("migrate", "2")),
			mutations: []mutation{mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))},
			want:      []string{"web: apply Deployment shop-web", "migrate: apply Job migrate:2"},
		},
	})
}

func TestRenamedComponents(t *testing.T) {
	db, store := service("db", "1"), service("store", "1", renamedFrom("db"))
	stays := `keep db: Component "db" was renamed to "store" and is kept until the new component is ready`
	runPlanCases(t, map[string]planCase{
		"new component does not exist": {
			applied: stack(db), spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"new component is not ready": {
			applied: stack(db), mutations: []mutation{addLive(store), mutateChild("shop-store", unready)}, spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"new component is partly ready": {
			applied: stack(db), mutations: []mutation{addLive(service("store", "1", renamedFrom("db"), replicas(3))), mutateChild("shop-store", readyReplicas(2))},
			spec: stack(service("store", "1", renamedFrom("db"), replicas(3))),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"new component is ready with an old template": {
			applied: stack(db), mutations: []mutation{addLive(store)}, spec: stack(service("store", "2", renamedFrom("db"))),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"new component is controlled by another owner": {
			applied: stack(db), mutations: []mutation{addLive(store), mutateChild("shop-store", ownedByOther[*appsv1.Deployment])}, spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"new component has no Service yet": {
			applied: stack(db), mutations: []mutation{addLive(store)}, spec: stack(service("store", "1", renamedFrom("db"), withPort)),
			want: []string{"store: apply Deployment shop-store, Service shop-store", stays},
		},
		"new component is ready": {
			applied: stack(db), mutations: []mutation{addLive(store)}, spec: stack(store),
			want: []string{"store: apply Deployment shop-store", "prune Deployment shop-db of db"},
		},
		"new component is ready, pods depend on the old one": {
			applied: stack(db, service("web", "1", dependsOn("db"))), mutations: []mutation{addLive(store)}, spec: stack(store, service("web", "1", dependsOn("store"))),
			want: []string{
				"store: apply Deployment shop-store", "web: apply Deployment shop-web",
				`keep db: Component "db" was removed from the spec and is kept until no pod of "web" depends on it`,
			},
		},
		"components in a cycle with the old one stay": {
			applied: stack(service("db", "1", dependsOn("log")), service("log", "1", dependsOn("db"))), spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays, `keep log: Component "db" was renamed to "store" and is kept until the new component is ready`},
		},
		"new component takes over the children of the old one": {
			applied: stack(db), spec: stack(service("store", "1", renamedFrom("db"), withResourceName("shop-db"))),
			want: []string{"store: apply Deployment shop-db"},
		},
	})
}

// TestRenamedToComponentWithoutChildren checks a component of an unknown type, which has no children: it
// must not block other components.
func TestRenamedToComponentWithoutChildren(t *testing.T) {
	in := Input{Owner: shop, Components: []desired.Component{{Name: "store", RenamedFrom: "db"}}, Observed: liveObjects(service("db", "1"))}
	got, err := NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"store: ", "prune Deployment shop-db of db"}, planLines(got)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestChangedResourceName(t *testing.T) {
	before, now := service("db", "1", withPort), service("db", "1", withPort, withResourceName("base"))
	user := service("web", "1", boundTo("db"))
	applies := "db: apply Deployment base, Service base"
	stays := "keep db: Deployment shop-db is kept until its replacement Deployment base is ready"
	used := `keep db: Deployment shop-db is kept until no pod of "web" depends on it`
	runPlanCases(t, map[string]planCase{
		"new component does not exist": {
			applied: stack(before), spec: stack(now),
			want: []string{applies, stays},
		},
		"new component is not ready": {
			applied: stack(before), mutations: []mutation{addLive(now), mutateChild("base", unready)}, spec: stack(now),
			want: []string{applies, stays},
		},
		"new component is ready": {
			applied: stack(before), mutations: []mutation{addLive(now)}, spec: stack(now),
			want: []string{applies, "prune Deployment shop-db of db"},
		},
		"dependent is not updated yet": {
			applied: stack(before, user), mutations: []mutation{addLive(now)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"dependent has old pods": {
			applied: stack(before, user), mutations: []mutation{addLive(now), rollOut("web", now, user), mutateChild("shop-web", rollingOut)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"dependent has terminating old pods": {
			applied: stack(before, user), mutations: []mutation{addLive(now), rollOut("web", now, user), mutateChild("shop-web", terminatingPods)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"dependent has only new pods": {
			applied: stack(before, user), mutations: []mutation{addLive(now), rollOut("web", now, user)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"dependent does not exist": {
			applied: stack(before), mutations: []mutation{addLive(now)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"unrelated components do not count": {
			applied: stack(before, service("api", "1")), mutations: []mutation{addLive(now), mutateChild("shop-api", rollingOut)}, spec: stack(now, service("api", "1")),
			want: []string{applies, "api: apply Deployment shop-api", "prune Deployment shop-db of db"},
		},
		"former dependent still has old pods": {
			applied: stack(before, user), mutations: []mutation{addLive(now)},
			spec: stack(now, service("web", "1", dependsOn("cache")), service("cache", "1")),
			want: []string{applies, "web: apply Deployment shop-web without its pod template; wait for cache", "cache: apply Deployment shop-cache", used},
		},
		"removed component has dependent pods": {
			applied: stack(before, user, service("api", "1", dependsOn("web"))), mutations: []mutation{addLive(now)},
			spec: stack(now, service("api", "1")),
			want: []string{
				applies, "api: apply Deployment shop-api", used,
				`keep web: Component "web" was removed from the spec and is kept until no pod of "api" depends on it`,
			},
		},
		"removed component in a cycle does not block forever": {
			applied: stack(service("db", "1", withPort, dependsOn("web")), user), mutations: []mutation{addLive(now)}, spec: stack(now),
			want: []string{
				applies, "prune Deployment shop-db of db",
				`keep web: Component "web" was removed from the spec and is kept until no pod of "db" depends on it`,
			},
		},
		"active job was created with it": {
			applied: stack(before, job("migrate", "1", boundTo("db"))), mutations: []mutation{addLive(now), mutateChild("shop-migrate", jobRunning)},
			spec: stack(now, job("migrate", "1", boundTo("db"))),
			want: []string{applies, "migrate: apply Job migrate:1", `keep db: Deployment shop-db is kept until no pod of "migrate" depends on it`},
		},
		"CronJob stays until its replacement exists": {
			applied: stack(service("api", "1"), job("report", "1", nightly, dependsOn("api"))), mutations: []mutation{mutateChild("shop-api", unready)},
			spec: stack(service("api", "1"), job("report", "1", nightly, dependsOn("api"), withResourceName("report"))),
			want: []string{
				"api: apply Deployment shop-api", "report: wait for api",
				"keep report: CronJob shop-report is kept until its replacement CronJob report is ready",
			},
		},
		"CronJob is deleted when its replacement exists": {
			applied: stack(job("report", "1", nightly)), mutations: []mutation{addLive(job("report", "1", nightly, withResourceName("report")))},
			spec: stack(job("report", "1", nightly, withResourceName("report"))),
			want: []string{"report: apply CronJob report", "prune CronJob shop-report of report"},
		},
	})
}
