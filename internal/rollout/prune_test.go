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
		"a Service without ports goes": {
			applied: stack(with), spec: stack(without),
			want: []string{"web: apply Deployment shop-web; remove Service shop-web"},
		},
		"also while the component waits": {
			applied: stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))), mutations: []mutation{mutateChild("shop-db", unready)},
			spec: stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want: []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; remove Service shop-web; wait for db"},
		},
		"one that is on its way out is not deleted again": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", terminating[*corev1.Service]())}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"one of somebody else stays": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", ownedByOther[*corev1.Service])}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"nobody's stays": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", unowned[*corev1.Service])}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"one that is kept on purpose stays": {
			applied: stack(with), mutations: []mutation{mutateChild("shop-web", annotated[*corev1.Service]("apps.holdfast.dev/prune", "disabled"))}, spec: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"one of another component stays": {
			applied: stack(with, service("api", "1")), spec: stack(with, service("api", "1")),
			want: []string{"web: apply Deployment shop-web, Service shop-web", "api: apply Deployment shop-api"},
		},
	})
}

func TestRemovedComponents(t *testing.T) {
	web, db := service("web", "1"), service("db", "1", withPort)
	user := service("web", "1", dependsOn("db"))
	runPlanCases(t, map[string]planCase{
		"nobody needs it": {
			applied: stack(web, db), spec: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"its Service goes when its pods are gone": {
			applied: stack(web, db), mutations: []mutation{deleteChild("Deployment", "shop-db")}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Service shop-db of db"},
		},
		"it is kept on purpose": {
			applied: stack(web, service("db", "1")), mutations: []mutation{mutateChild("shop-db", annotated[*appsv1.Deployment]("apps.holdfast.dev/prune", "disabled"))}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web"},
		},
		"it is of somebody else": {
			applied: stack(web, service("db", "1")), mutations: []mutation{mutateChild("shop-db", ownedByOther[*appsv1.Deployment])}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web"},
		},
		"pods that run were made to depend on it": {
			applied: stack(user, db), spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"pods on their way out depended on it": {
			applied: stack(web, db), mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment]("apps.holdfast.dev/previous-depends-on", "db"))}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"the pods that needed it are new, and the record of it goes": {
			applied: stack(user, db), mutations: []mutation{rollOut("web", web), rollOut("web", web)}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"pods that wait for another component still need it": {
			applied: stack(user, db), spec: stack(service("web", "2", dependsOn("cache")), service("cache", "1")),
			want: []string{
				"web: apply Deployment shop-web without its pods; wait for cache", "cache: apply Deployment shop-cache",
				`keep db: Component "db" left the spec and stays until no pod of "web" needs it`,
			},
		},
		"of several that need it, the first is named": {
			applied: stack(service("web", "1", dependsOn("db")), service("api", "1", dependsOn("db")), db), spec: stack(web, service("api", "1")),
			want: []string{"web: apply Deployment shop-web", "api: apply Deployment shop-api", `keep db: Component "db" left the spec and stays until no pod of "api" needs it`},
		},
		"a suspended component needs it": {
			applied: stack(user, db, service("api", "1")), spec: stack(service("web", "1", suspended), service("api", "1")),
			want: []string{"api: apply Deployment shop-api", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"a workload that lost its reference to us needs it": {
			applied: stack(user, db), mutations: []mutation{mutateChild("shop-web", unowned[*appsv1.Deployment])}, spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"a job at work needs it": {
			applied: stack(job("migrate", "1", dependsOn("db")), db), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(job("migrate", "1")),
			want: []string{"migrate: apply Job migrate:1", `keep db: Component "db" left the spec and stays until no pod of "migrate" needs it`},
		},
		"a job that has ended needs nothing": {
			applied: stack(job("migrate", "1", dependsOn("db")), service("db", "1")), spec: stack(job("migrate", "1")),
			want: []string{"migrate: apply Job migrate:1", "prune Deployment shop-db of db"},
		},
		"of two that left, the one that is needed goes last": {
			applied: stack(user, service("db", "1"), service("api", "1")), spec: stack(service("api", "1")),
			want: []string{"api: apply Deployment shop-api", "prune Deployment shop-web of web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"two that left and need each other go together": {
			applied: stack(user, service("db", "1", dependsOn("web")), service("api", "1")), spec: stack(service("api", "1")),
			want: []string{"api: apply Deployment shop-api", "prune Deployment shop-db of db", "prune Deployment shop-web of web"},
		},
		"two that need each other stay while a third needs one of them": {
			applied: stack(user, service("db", "1", dependsOn("web")), service("api", "1", dependsOn("web"))), spec: stack(service("api", "1")),
			want: []string{
				"api: apply Deployment shop-api",
				`keep db: Component "db" left the spec and stays until no pod of "api" needs it`,
				`keep web: Component "web" left the spec and stays until no pod of "api" needs it`,
			},
		},
		"a circle through a component of the spec is no circle": {
			applied: stack(user, service("db", "1", dependsOn("web"))), spec: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"nobody knows for whom it was made": {
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
				"keep db: Deployment shop/shop-db is being deleted since 2026-01-02T12:00:00Z and waits for the finalizers example.com/one, example.com/two",
			},
		},
		"with finalizers, of a component that stays": {
			applied: stack(web, db), spec: stack(web, service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", terminating[*corev1.Service]("example.com/one"))},
			want: []string{
				"web: apply Deployment shop-web", "db: apply Deployment shop-db",
				"keep db: Service shop/shop-db is being deleted since 2026-01-02T12:00:00Z and waits for the finalizers example.com/one",
			},
		},
		"without any it is as good as gone": {
			applied: stack(web, db), spec: stack(web),
			mutations: []mutation{mutateChild("shop-db", terminating[*appsv1.Deployment]("foregroundDeletion")), mutateChild("shop-db", terminating[*corev1.Service]())},
			want:      []string{"web: apply Deployment shop-web"},
		},
		"a run of a job": {
			applied: stack(web, job("migrate", "1")), spec: stack(web, job("migrate", "2")),
			mutations: []mutation{mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))},
			want:      []string{"web: apply Deployment shop-web", "migrate: apply Job migrate:2"},
		},
	})
}

func TestRenamedComponents(t *testing.T) {
	db, store := service("db", "1"), service("store", "1", renamedFrom("db"))
	stays := `keep db: Component "db" was renamed to "store" and stays until that is ready`
	runPlanCases(t, map[string]planCase{
		"the new one is not there": {
			applied: stack(db), spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is not ready": {
			applied: stack(db), mutations: []mutation{addLive(store), mutateChild("shop-store", unready)}, spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is ready in part": {
			applied: stack(db), mutations: []mutation{addLive(service("store", "1", renamedFrom("db"), replicas(3))), mutateChild("shop-store", readyReplicas(2))},
			spec: stack(service("store", "1", renamedFrom("db"), replicas(3))),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is ready, but at an old template": {
			applied: stack(db), mutations: []mutation{addLive(store)}, spec: stack(service("store", "2", renamedFrom("db"))),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is somebody else's": {
			applied: stack(db), mutations: []mutation{addLive(store), mutateChild("shop-store", ownedByOther[*appsv1.Deployment])}, spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one has no Service yet": {
			applied: stack(db), mutations: []mutation{addLive(store)}, spec: stack(service("store", "1", renamedFrom("db"), withPort)),
			want: []string{"store: apply Deployment shop-store, Service shop-store", stays},
		},
		"the new one is ready": {
			applied: stack(db), mutations: []mutation{addLive(store)}, spec: stack(store),
			want: []string{"store: apply Deployment shop-store", "prune Deployment shop-db of db"},
		},
		"the new one is ready, but pods still need the old one": {
			applied: stack(db, service("web", "1", dependsOn("db"))), mutations: []mutation{addLive(store)}, spec: stack(store, service("web", "1", dependsOn("store"))),
			want: []string{
				"store: apply Deployment shop-store", "web: apply Deployment shop-web",
				`keep db: Component "db" left the spec and stays until no pod of "web" needs it`,
			},
		},
		"those that the old one needs in a circle stay with it": {
			applied: stack(service("db", "1", dependsOn("log")), service("log", "1", dependsOn("db"))), spec: stack(store),
			want: []string{"store: apply Deployment shop-store", stays, `keep log: Component "db" was renamed to "store" and stays until that is ready`},
		},
		"the new one keeps the children, which are no longer the old one's": {
			applied: stack(db), spec: stack(service("store", "1", renamedFrom("db"), withResourceName("shop-db"))),
			want: []string{"store: apply Deployment shop-db"},
		},
	})
}

// A component without children is of no type that exists; it must not stop the others.
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
	stays := "keep db: Deployment shop-db stays until Deployment base, which replaces it, is ready"
	used := `keep db: Deployment shop-db stays until no pod of "web" needs it`
	runPlanCases(t, map[string]planCase{
		"the new one is not there": {
			applied: stack(before), spec: stack(now),
			want: []string{applies, stays},
		},
		"the new one is not ready": {
			applied: stack(before), mutations: []mutation{addLive(now), mutateChild("base", unready)}, spec: stack(now),
			want: []string{applies, stays},
		},
		"the new one is ready": {
			applied: stack(before), mutations: []mutation{addLive(now)}, spec: stack(now),
			want: []string{applies, "prune Deployment shop-db of db"},
		},
		"those that need it are still to be told": {
			applied: stack(before, user), mutations: []mutation{addLive(now)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"those that need it have old pods": {
			applied: stack(before, user), mutations: []mutation{addLive(now), rollOut("web", now, user), mutateChild("shop-web", rollingOut)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"those that need it have old pods on their way out": {
			applied: stack(before, user), mutations: []mutation{addLive(now), rollOut("web", now, user), mutateChild("shop-web", terminatingPods)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"those that need it have new pods": {
			applied: stack(before, user), mutations: []mutation{addLive(now), rollOut("web", now, user)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"those that need it are not there": {
			applied: stack(before), mutations: []mutation{addLive(now)}, spec: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"those that do not need it do not count": {
			applied: stack(before, service("api", "1")), mutations: []mutation{addLive(now), mutateChild("shop-api", rollingOut)}, spec: stack(now, service("api", "1")),
			want: []string{applies, "api: apply Deployment shop-api", "prune Deployment shop-db of db"},
		},
		"one that shall no longer need it has pods that do": {
			applied: stack(before, user), mutations: []mutation{addLive(now)},
			spec: stack(now, service("web", "1", dependsOn("cache")), service("cache", "1")),
			want: []string{applies, "web: apply Deployment shop-web without its pods; wait for cache", "cache: apply Deployment shop-cache", used},
		},
		"one that left the spec has pods that need it": {
			applied: stack(before, user, service("api", "1", dependsOn("web"))), mutations: []mutation{addLive(now)},
			spec: stack(now, service("api", "1")),
			want: []string{
				applies, "api: apply Deployment shop-api", used,
				`keep web: Component "web" left the spec and stays until no pod of "api" needs it`,
			},
		},
		"one that left the spec needs it, and it needs that one: not for ever": {
			applied: stack(service("db", "1", withPort, dependsOn("web")), user), mutations: []mutation{addLive(now)}, spec: stack(now),
			want: []string{
				applies, "prune Deployment shop-db of db",
				`keep web: Component "web" left the spec and stays until no pod of "db" needs it`,
			},
		},
		"a job that was begun with it is at work": {
			applied: stack(before, job("migrate", "1", boundTo("db"))), mutations: []mutation{addLive(now), mutateChild("shop-migrate", jobRunning)},
			spec: stack(now, job("migrate", "1", boundTo("db"))),
			want: []string{applies, "migrate: apply Job migrate:1", `keep db: Deployment shop-db stays until no pod of "migrate" needs it`},
		},
		"a CronJob stays until the new one is there": {
			applied: stack(service("api", "1"), job("report", "1", nightly, dependsOn("api"))), mutations: []mutation{mutateChild("shop-api", unready)},
			spec: stack(service("api", "1"), job("report", "1", nightly, dependsOn("api"), withResourceName("report"))),
			want: []string{
				"api: apply Deployment shop-api", "report: wait for api",
				"keep report: CronJob shop-report stays until CronJob report, which replaces it, is ready",
			},
		},
		"a CronJob goes when the new one is there": {
			applied: stack(job("report", "1", nightly)), mutations: []mutation{addLive(job("report", "1", nightly, withResourceName("report")))},
			spec: stack(job("report", "1", nightly, withResourceName("report"))),
			want: []string{"report: apply CronJob report", "prune CronJob shop-report of report"},
		},
	})
}
