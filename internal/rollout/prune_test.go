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
	with, without := service("web", "1", ports), service("web", "1")
	tell(t, map[string]story{
		"a Service without ports goes": {
			before: stack(with), now: stack(without),
			want: []string{"web: apply Deployment shop-web; remove Service shop-web"},
		},
		"also while the component waits": {
			before: stack(service("db", "1"), service("web", "1", ports, needing("db"))), deeds: []deed{to("shop-db", fallsOver)},
			now:  stack(service("db", "1"), service("web", "1", needing("db"))),
			want: []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; remove Service shop-web; wait for db"},
		},
		"one that is on its way out is not deleted again": {
			before: stack(with), deeds: []deed{to("shop-web", leaves[*corev1.Service]())}, now: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"one of somebody else stays": {
			before: stack(with), deeds: []deed{to("shop-web", theirs[*corev1.Service])}, now: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"nobody's stays": {
			before: stack(with), deeds: []deed{to("shop-web", nobodys[*corev1.Service])}, now: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"one that is kept on purpose stays": {
			before: stack(with), deeds: []deed{to("shop-web", noted[*corev1.Service]("apps.holdfast.dev/prune", "disabled"))}, now: stack(without),
			want: []string{"web: apply Deployment shop-web"},
		},
		"one of another component stays": {
			before: stack(with, service("api", "1")), now: stack(with, service("api", "1")),
			want: []string{"web: apply Deployment shop-web, Service shop-web", "api: apply Deployment shop-api"},
		},
	})
}

func TestRemovedComponents(t *testing.T) {
	web, db := service("web", "1"), service("db", "1", ports)
	user := service("web", "1", needing("db"))
	tell(t, map[string]story{
		"nobody needs it": {
			before: stack(web, db), now: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"its Service goes when its pods are gone": {
			before: stack(web, db), deeds: []deed{gone("Deployment", "shop-db")}, now: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Service shop-db of db"},
		},
		"it is kept on purpose": {
			before: stack(web, service("db", "1")), deeds: []deed{to("shop-db", noted[*appsv1.Deployment]("apps.holdfast.dev/prune", "disabled"))}, now: stack(web),
			want: []string{"web: apply Deployment shop-web"},
		},
		"it is of somebody else": {
			before: stack(web, service("db", "1")), deeds: []deed{to("shop-db", theirs[*appsv1.Deployment])}, now: stack(web),
			want: []string{"web: apply Deployment shop-web"},
		},
		"pods that run were made to depend on it": {
			before: stack(user, db), now: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"pods on their way out depended on it": {
			before: stack(web, db), deeds: []deed{to("shop-web", noted[*appsv1.Deployment]("apps.holdfast.dev/depended-on", "db"))}, now: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"the pods that needed it are new, and the record of it goes": {
			before: stack(user, db), deeds: []deed{rollOut("web", web), rollOut("web", web)}, now: stack(web),
			want: []string{"web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"pods that wait for another component still need it": {
			before: stack(user, db), now: stack(service("web", "2", needing("cache")), service("cache", "1")),
			want: []string{
				"web: apply Deployment shop-web without its pods; wait for cache", "cache: apply Deployment shop-cache",
				`keep db: Component "db" left the spec and stays until no pod of "web" needs it`,
			},
		},
		"of several that need it, the first is named": {
			before: stack(service("web", "1", needing("db")), service("api", "1", needing("db")), db), now: stack(web, service("api", "1")),
			want: []string{"web: apply Deployment shop-web", "api: apply Deployment shop-api", `keep db: Component "db" left the spec and stays until no pod of "api" needs it`},
		},
		"a suspended component needs it": {
			before: stack(user, db, service("api", "1")), now: stack(service("web", "1", held), service("api", "1")),
			want: []string{"api: apply Deployment shop-api", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"a workload that lost its reference to us needs it": {
			before: stack(user, db), deeds: []deed{to("shop-web", nobodys[*appsv1.Deployment])}, now: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"a job at work needs it": {
			before: stack(job("migrate", "1", needing("db")), db), deeds: []deed{to("shop-migrate", atWork)}, now: stack(job("migrate", "1")),
			want: []string{"migrate: apply Job migrate:1", `keep db: Component "db" left the spec and stays until no pod of "migrate" needs it`},
		},
		"a job that has ended needs nothing": {
			before: stack(job("migrate", "1", needing("db")), service("db", "1")), now: stack(job("migrate", "1")),
			want: []string{"migrate: apply Job migrate:1", "prune Deployment shop-db of db"},
		},
		"of two that left, the one that is needed goes last": {
			before: stack(user, service("db", "1"), service("api", "1")), now: stack(service("api", "1")),
			want: []string{"api: apply Deployment shop-api", "prune Deployment shop-web of web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"two that left and need each other go together": {
			before: stack(user, service("db", "1", needing("web")), service("api", "1")), now: stack(service("api", "1")),
			want: []string{"api: apply Deployment shop-api", "prune Deployment shop-db of db", "prune Deployment shop-web of web"},
		},
		"two that need each other stay while a third needs one of them": {
			before: stack(user, service("db", "1", needing("web")), service("api", "1", needing("web"))), now: stack(service("api", "1")),
			want: []string{
				"api: apply Deployment shop-api",
				`keep db: Component "db" left the spec and stays until no pod of "api" needs it`,
				`keep web: Component "web" left the spec and stays until no pod of "api" needs it`,
			},
		},
		"a circle through a component of the spec is no circle": {
			before: stack(user, service("db", "1", needing("web"))), now: stack(web),
			want: []string{"web: apply Deployment shop-web", `keep db: Component "db" left the spec and stays until no pod of "web" needs it`},
		},
		"nobody knows for whom it was made": {
			before: stack(web, service("db", "1")), now: stack(web),
			deeds: []deed{to("shop-db", func(d *appsv1.Deployment) { d.Labels = nil }), to("shop-web", fallsOver)},
			want:  []string{"web: apply Deployment shop-web", "prune Deployment shop-db of "},
		},
	})
}

func TestLeaving(t *testing.T) {
	web, db := service("web", "1"), service("db", "1", ports)
	tell(t, map[string]story{
		"with finalizers": {
			before: stack(web, db), now: stack(web),
			deeds: []deed{to("shop-db", leaves[*appsv1.Deployment]("example.com/one", "foregroundDeletion", "example.com/two"))},
			want: []string{
				"web: apply Deployment shop-web",
				"keep db: Deployment shop/shop-db is being deleted since 2026-01-02T12:00:00Z and waits for the finalizers example.com/one, example.com/two",
			},
		},
		"with finalizers, of a component that stays": {
			before: stack(web, db), now: stack(web, service("db", "1")),
			deeds: []deed{to("shop-db", leaves[*corev1.Service]("example.com/one"))},
			want: []string{
				"web: apply Deployment shop-web", "db: apply Deployment shop-db",
				"keep db: Service shop/shop-db is being deleted since 2026-01-02T12:00:00Z and waits for the finalizers example.com/one",
			},
		},
		"without any it is as good as gone": {
			before: stack(web, db), now: stack(web),
			deeds: []deed{to("shop-db", leaves[*appsv1.Deployment]("foregroundDeletion")), to("shop-db", leaves[*corev1.Service]())},
			want:  []string{"web: apply Deployment shop-web"},
		},
		"a run of a job": {
			before: stack(web, job("migrate", "1")), now: stack(web, job("migrate", "2")),
			deeds: []deed{to("shop-migrate", leaves[*batchv1.Job]("foregroundDeletion"))},
			want:  []string{"web: apply Deployment shop-web", "migrate: apply Job migrate:2"},
		},
	})
}

func TestRenamedComponents(t *testing.T) {
	db, store := service("db", "1"), service("store", "1", was("db"))
	stays := `keep db: Component "db" was renamed to "store" and stays until that is ready`
	tell(t, map[string]story{
		"the new one is not there": {
			before: stack(db), now: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is not ready": {
			before: stack(db), deeds: []deed{also(store), to("shop-store", fallsOver)}, now: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is ready in part": {
			before: stack(db), deeds: []deed{also(service("store", "1", was("db"), replicas(3))), to("shop-store", ready(2))},
			now:  stack(service("store", "1", was("db"), replicas(3))),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is ready, but at an old template": {
			before: stack(db), deeds: []deed{also(store)}, now: stack(service("store", "2", was("db"))),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one is somebody else's": {
			before: stack(db), deeds: []deed{also(store), to("shop-store", theirs[*appsv1.Deployment])}, now: stack(store),
			want: []string{"store: apply Deployment shop-store", stays},
		},
		"the new one has no Service yet": {
			before: stack(db), deeds: []deed{also(store)}, now: stack(service("store", "1", was("db"), ports)),
			want: []string{"store: apply Deployment shop-store, Service shop-store", stays},
		},
		"the new one is ready": {
			before: stack(db), deeds: []deed{also(store)}, now: stack(store),
			want: []string{"store: apply Deployment shop-store", "prune Deployment shop-db of db"},
		},
		"the new one is ready, but pods still need the old one": {
			before: stack(db, service("web", "1", needing("db"))), deeds: []deed{also(store)}, now: stack(store, service("web", "1", needing("store"))),
			want: []string{
				"store: apply Deployment shop-store", "web: apply Deployment shop-web",
				`keep db: Component "db" left the spec and stays until no pod of "web" needs it`,
			},
		},
		"those that the old one needs in a circle stay with it": {
			before: stack(service("db", "1", needing("log")), service("log", "1", needing("db"))), now: stack(store),
			want: []string{"store: apply Deployment shop-store", stays, `keep log: Component "db" was renamed to "store" and stays until that is ready`},
		},
		"the new one keeps the children, which are no longer the old one's": {
			before: stack(db), now: stack(service("store", "1", was("db"), called("shop-db"))),
			want: []string{"store: apply Deployment shop-db"},
		},
	})
}

// A component without children is of no type that exists; it must not stop the others.
func TestRenamedToNothing(t *testing.T) {
	in := Input{Owner: shop, Components: []desired.Component{{Name: "store", RenamedFrom: "db"}}, Seen: lives(service("db", "1"))}
	got, err := For(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"store: ", "prune Deployment shop-db of db"}, lines(got)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestOtherNames(t *testing.T) {
	before, now := service("db", "1", ports), service("db", "1", ports, called("base"))
	user := service("web", "1", boundTo("db"))
	applies := "db: apply Deployment base, Service base"
	stays := "keep db: Deployment shop-db stays until Deployment base, which replaces it, is ready"
	used := `keep db: Deployment shop-db stays until no pod of "web" needs it`
	tell(t, map[string]story{
		"the new one is not there": {
			before: stack(before), now: stack(now),
			want: []string{applies, stays},
		},
		"the new one is not ready": {
			before: stack(before), deeds: []deed{also(now), to("base", fallsOver)}, now: stack(now),
			want: []string{applies, stays},
		},
		"the new one is ready": {
			before: stack(before), deeds: []deed{also(now)}, now: stack(now),
			want: []string{applies, "prune Deployment shop-db of db"},
		},
		"those that need it are still to be told": {
			before: stack(before, user), deeds: []deed{also(now)}, now: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"those that need it have old pods": {
			before: stack(before, user), deeds: []deed{also(now), rollOut("web", now, user), to("shop-web", rolling)}, now: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"those that need it have old pods on their way out": {
			before: stack(before, user), deeds: []deed{also(now), rollOut("web", now, user), to("shop-web", losing)}, now: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", used},
		},
		"those that need it have new pods": {
			before: stack(before, user), deeds: []deed{also(now), rollOut("web", now, user)}, now: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"those that need it are not there": {
			before: stack(before), deeds: []deed{also(now)}, now: stack(now, user),
			want: []string{applies, "web: apply Deployment shop-web", "prune Deployment shop-db of db"},
		},
		"those that do not need it do not count": {
			before: stack(before, service("api", "1")), deeds: []deed{also(now), to("shop-api", rolling)}, now: stack(now, service("api", "1")),
			want: []string{applies, "api: apply Deployment shop-api", "prune Deployment shop-db of db"},
		},
		"one that shall no longer need it has pods that do": {
			before: stack(before, user), deeds: []deed{also(now)},
			now:  stack(now, service("web", "1", needing("cache")), service("cache", "1")),
			want: []string{applies, "web: apply Deployment shop-web without its pods; wait for cache", "cache: apply Deployment shop-cache", used},
		},
		"one that left the spec has pods that need it": {
			before: stack(before, user, service("api", "1", needing("web"))), deeds: []deed{also(now)},
			now: stack(now, service("api", "1")),
			want: []string{
				applies, "api: apply Deployment shop-api", used,
				`keep web: Component "web" left the spec and stays until no pod of "api" needs it`,
			},
		},
		"one that left the spec needs it, and it needs that one: not for ever": {
			before: stack(service("db", "1", ports, needing("web")), user), deeds: []deed{also(now)}, now: stack(now),
			want: []string{
				applies, "prune Deployment shop-db of db",
				`keep web: Component "web" left the spec and stays until no pod of "db" needs it`,
			},
		},
		"a job that was begun with it is at work": {
			before: stack(before, job("migrate", "1", boundTo("db"))), deeds: []deed{also(now), to("shop-migrate", atWork)},
			now:  stack(now, job("migrate", "1", boundTo("db"))),
			want: []string{applies, "migrate: apply Job migrate:1", `keep db: Deployment shop-db stays until no pod of "migrate" needs it`},
		},
		"a CronJob stays until the new one is there": {
			before: stack(service("api", "1"), job("report", "1", nightly, needing("api"))), deeds: []deed{to("shop-api", fallsOver)},
			now: stack(service("api", "1"), job("report", "1", nightly, needing("api"), called("report"))),
			want: []string{
				"api: apply Deployment shop-api", "report: wait for api",
				"keep report: CronJob shop-report stays until CronJob report, which replaces it, is ready",
			},
		},
		"a CronJob goes when the new one is there": {
			before: stack(job("report", "1", nightly)), deeds: []deed{also(job("report", "1", nightly, called("report")))},
			now:  stack(job("report", "1", nightly, called("report"))),
			want: []string{"report: apply CronJob report", "prune CronJob shop-report of report"},
		},
	})
}
