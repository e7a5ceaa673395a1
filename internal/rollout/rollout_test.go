package rollout

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// story is a spec, what lives when it comes, and what is planned then.
type story struct {
	before []appsapi.Component // was applied and is well
	deeds  []deed              // what happened since
	now    []appsapi.Component
	keep   map[string]bool
	want   []string
}

func tell(t *testing.T, stories map[string]story) {
	t.Helper()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			got, err := plan(s.now, lives(s.before...), s.keep, s.deeds...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, lines(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewComponents(t *testing.T) {
	tell(t, map[string]story{
		"nothing is there": {
			now:  stack(service("db", "1"), service("web", "1", ports), job("migrate", "1"), job("report", "1", nightly)),
			want: []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web", "migrate: apply Job migrate:1", "report: apply CronJob shop-report"},
		},
		"a chain, and nothing is there": {
			now:  stack(service("web", "1", ports, needing("api")), service("api", "1", ports, needing("db")), service("db", "1")),
			want: []string{"web: wait for api", "api: wait for db", "db: apply Deployment shop-db"},
		},
		"a dependency is not ready": {
			before: stack(service("db", "1")),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1"), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"a dependency is ready": {
			before: stack(service("db", "1")),
			now:    stack(service("db", "1"), service("web", "1", ports, needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web"},
		},
		"one of two dependencies is ready": {
			before: stack(service("db", "1")),
			now:    stack(service("db", "1"), service("cache", "1"), service("web", "1", needing("db", "cache"))),
			want:   []string{"db: apply Deployment shop-db", "cache: apply Deployment shop-cache", "web: wait for cache"},
		},
		"a binding is a dependency": {
			before: stack(service("db", "1", ports)),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1", ports), service("web", "1", boundTo("db"))),
			want:   []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"a bound component whose Service is somebody else's is not reached": {
			before: stack(service("db", "1", ports)),
			deeds:  []deed{to("shop-db", theirs[*corev1.Service])},
			now:    stack(service("db", "1", ports), service("web", "1", boundTo("db"))),
			want:   []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"who is not bound does not need a Service": {
			before: stack(service("db", "1", ports)),
			deeds:  []deed{to("shop-db", theirs[*corev1.Service])},
			now:    stack(service("db", "1", ports), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db, Service shop-db", "web: apply Deployment shop-web"},
		},
		"a majority is ready": {
			before: stack(service("db", "1", replicas(3))),
			deeds:  []deed{to("shop-db", ready(2))},
			now:    stack(service("db", "1", replicas(3)), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"less than a majority is ready": {
			before: stack(service("db", "1", replicas(3))),
			deeds:  []deed{to("shop-db", ready(1))},
			now:    stack(service("db", "1", replicas(3)), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"a dependency is ready, but at an old template": {
			before: stack(service("db", "1")),
			now:    stack(service("db", "2"), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"a dependency is scaled, which is no other template": {
			before: stack(service("db", "1", replicas(1))),
			now:    stack(service("db", "1", replicas(3)), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"a dependency that cannot be rendered counts as it is": {
			before: stack(service("db", "1")),
			deeds:  []deed{to("shop-db", severalContainers)},
			now:    stack(service("db", "2"), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"a Service that exists passes": {
			before: stack(service("web", "1", ports, needing("db")), service("db", "1")),
			deeds:  []deed{gone("Deployment", "shop-web"), to("shop-db", fallsOver)},
			now:    stack(service("web", "1", ports, needing("db")), service("db", "1")),
			want:   []string{"web: apply Service shop-web; wait for db", "db: apply Deployment shop-db"},
		},
		"a binding waits for the Service, too": {
			before: stack(service("db", "1", ports)),
			deeds:  []deed{gone("Service", "shop-db")},
			now:    stack(service("db", "1", ports), service("web", "1", boundTo("db")), service("log", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db", "log: apply Deployment shop-log"},
		},
		"a binding to the Service of somebody else would lead elsewhere": {
			before: stack(service("db", "1", ports)),
			deeds:  []deed{to("shop-db", theirs[*corev1.Service])},
			now:    stack(service("db", "1", ports), service("web", "1", boundTo("db"))),
			want:   []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"a dependency of somebody else does not count": {
			before: stack(service("db", "1")),
			deeds:  []deed{to("shop-db", theirs[*appsv1.Deployment])},
			now:    stack(service("db", "1"), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"what somebody else has is left to the apply, which names the owner": {
			before: stack(service("db", "1"), service("web", "1", needing("db"))),
			deeds:  []deed{to("shop-web", theirs[*appsv1.Deployment]), to("shop-db", fallsOver)},
			now:    stack(service("db", "1"), service("web", "1", ports, needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
	})
}

// severalContainers makes a Deployment one of those that cannot be taken over.
func severalContainers(d *appsv1.Deployment) {
	noted[*appsv1.Deployment](appsapi.AnnotationAdopt, "true")(d)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "one"}, {Name: "two"}}
}

func TestChanges(t *testing.T) {
	tell(t, map[string]story{
		"new pods wait for a dependency": {
			before: stack(service("db", "1"), service("web", "1", ports, needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1"), service("web", "2", ports, needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods, Service shop-web; wait for db"},
		},
		"new pods do not wait for one that is ready": {
			before: stack(service("db", "1"), service("web", "1", needing("db"))),
			now:    stack(service("db", "1"), service("web", "2", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"new pods wait for the new pods of a dependency": {
			before: stack(service("db", "1"), service("web", "1", needing("db"))),
			now:    stack(service("db", "2"), service("web", "2", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"the same pods wait for nobody": {
			before: stack(service("db", "1"), service("web", "1", ports, needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1"), service("web", "1", ports, needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web"},
		},
		"another number of pods waits for nobody": {
			before: stack(service("db", "1"), service("web", "1", needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1"), service("web", "1", replicas(5), needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"a new dependency is waited for": {
			before: stack(service("web", "1")),
			now:    stack(service("db", "1"), service("web", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"a workload without its owner reference keeps its pods, too": {
			before: stack(service("db", "1"), service("web", "1", needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver), to("shop-web", nobodys[*appsv1.Deployment])},
			now:    stack(service("db", "1"), service("web", "2", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"a workload whose owner lets us in keeps its pods, too": {
			before: stack(service("db", "1"), service("web", "1", needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver), to("shop-web", nobodys[*appsv1.Deployment]), to("shop-web", noted[*appsv1.Deployment](appsapi.AnnotationAdopt, "true"))},
			now:    stack(service("db", "1"), service("web", "2", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"the next runs of a CronJob wait": {
			before: stack(service("db", "1"), job("report", "1", nightly, needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1"), job("report", "2", nightly, needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "report: apply CronJob shop-report without its pods; wait for db"},
		},
	})
}

// TestHeld tells a suspended application that something left from one that nothing did.
func TestHeld(t *testing.T) {
	both := stack(service("db", "1", held), service("web", "1", held))
	for name, tc := range map[string]struct {
		now  []appsapi.Component
		want bool
	}{
		"nothing left":                    {both, false},
		"a component left":                {both[:1], true},
		"a component left, others may go": {stack(service("db", "1")), false},
	} {
		got, err := plan(tc.now, lives(both...), nil)
		if err != nil || got.Held != tc.want {
			t.Errorf("%s: held %t, %v", name, got.Held, err)
		}
	}
}

func TestSuspended(t *testing.T) {
	tell(t, map[string]story{
		"a suspended dependency that is ready counts, at whatever template": {
			before: stack(service("db", "1")),
			now:    stack(service("db", "2", held), service("web", "1", needing("db"))),
			want:   []string{"web: apply Deployment shop-web"},
		},
		"a suspended dependency that is not ready does not count": {
			before: stack(service("db", "1")),
			deeds:  []deed{to("shop-db", fallsOver)},
			now:    stack(service("db", "1", held), service("web", "1", needing("db"))),
			want:   []string{"web: wait for db"},
		},
		"a suspended dependency that is not there does not count": {
			now:  stack(service("db", "1", held), service("web", "1", needing("db"))),
			want: []string{"web: wait for db"},
		},
		"what a suspended component no longer wants stays": {
			before: stack(service("db", "1"), service("web", "1", ports)),
			now:    stack(service("db", "1"), service("web", "1", held)),
			want:   []string{"db: apply Deployment shop-db"},
		},
		"what a suspended component was called before stays, and its earlier runs": {
			before: stack(service("db", "1"), service("web", "1"), job("migrate", "1")),
			deeds:  []deed{also(service("web", "1", called("front")), job("migrate", "2"))},
			now:    stack(service("db", "1"), service("web", "1", called("front"), held), job("migrate", "2", held)),
			want:   []string{"db: apply Deployment shop-db"},
		},
		"all are suspended: hands off, also from what left the spec": {
			before: stack(service("db", "1"), service("old", "1"), service("web", "1", ports)),
			now:    stack(service("db", "2", held), service("web", "1", held)),
		},
	})
}

func TestJobs(t *testing.T) {
	one, two := job("migrate", "1"), job("migrate", "2")
	later := service("web", "1", needing("migrate"))
	tell(t, map[string]story{
		"a job gates until it is complete": {
			before: stack(one), deeds: []deed{to("shop-migrate", atWork)}, now: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: wait for migrate"},
		},
		"a job that failed gates": {
			before: stack(one), deeds: []deed{to("shop-migrate", failed)}, now: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: wait for migrate"},
		},
		"a job that is complete gates nobody": {
			before: stack(one), now: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: apply Deployment shop-web"},
		},
		"a CronJob gates nobody, not even while it is not there": {
			now:  stack(job("report", "1", nightly), service("web", "1", needing("report"))),
			want: []string{"report: apply CronJob shop-report", "web: apply Deployment shop-web"},
		},
		"a job that is there waits for nobody": {
			before: stack(service("db", "1"), job("migrate", "1", needing("db"))),
			deeds:  []deed{to("shop-db", fallsOver), to("shop-migrate", idle)},
			now:    stack(service("db", "1"), job("migrate", "1", needing("db"))),
			want:   []string{"db: apply Deployment shop-db", "migrate: apply Job migrate:1"},
		},
		"an earlier run that is idle, as far as one knows, is ended and waited for": {
			before: stack(one), deeds: []deed{to("shop-migrate", idle)}, now: stack(two),
			want: []string{"migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"an earlier run that is at work is ended and waited for": {
			before: stack(one), deeds: []deed{to("shop-migrate", atWork)}, now: stack(two),
			want: []string{"migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"an earlier run that is still ending is waited for": {
			before: stack(one), deeds: []deed{to("shop-migrate", atWork), to("shop-migrate", leaves[*batchv1.Job]("foregroundDeletion"))}, now: stack(two),
			want: []string{"migrate: wait for the end of Job migrate:1"},
		},
		"an earlier run whose pod is not counted any more is waited for": {
			before: stack(one), deeds: []deed{to("shop-migrate", idle), to("shop-migrate", leaves[*batchv1.Job]("foregroundDeletion"))}, now: stack(two),
			want: []string{"migrate: wait for the end of Job migrate:1"},
		},
		"an earlier run that is over is not waited for while it is deleted": {
			before: stack(one), deeds: []deed{to("shop-migrate", leaves[*batchv1.Job]("foregroundDeletion"))}, now: stack(two),
			want: []string{"migrate: apply Job migrate:2"},
		},
		"an earlier run at work goes before the wait for a dependency": {
			before: stack(service("db", "1"), one), deeds: []deed{to("shop-migrate", atWork), to("shop-db", fallsOver)},
			now:  stack(service("db", "1"), job("migrate", "2", needing("db"))),
			want: []string{"db: apply Deployment shop-db", "migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"an earlier run is ended also while the new one has to wait": {
			before: stack(one), deeds: []deed{to("shop-migrate", idle)},
			now:  stack(service("db", "1"), job("migrate", "2", needing("db"))),
			want: []string{"db: apply Deployment shop-db", "migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"the run of another job is left alone": {
			before: stack(one, job("other", "1")), deeds: []deed{to("shop-migrate", atWork), to("shop-other", atWork)},
			now:  stack(one, job("other", "1")),
			want: []string{"migrate: apply Job migrate:1", "other: apply " + nameOf(desired.For(shop, stack(job("other", "1")), desired.Known{})[0].Workload)},
		},
		"a finished run that must not run twice is kept": {
			before: stack(one), now: stack(two), keep: map[string]bool{jobSpec(one): true},
			want: []string{"migrate: apply Job migrate:2"},
		},
		"a failed run that must not run twice is kept": {
			before: stack(one), deeds: []deed{to("shop-migrate", failed)}, now: stack(two), keep: map[string]bool{jobSpec(one): true},
			want: []string{"migrate: apply Job migrate:2"},
		},
		"other finished runs are pruned": {
			before: stack(one), deeds: []deed{also(two)}, now: stack(job("migrate", "3")), keep: map[string]bool{jobSpec(two): true},
			want: []string{"migrate: apply Job migrate:3", "prune Job migrate:1 of migrate"},
		},
		"a finished run of a job that left the spec is kept, too: one may go back to it": {
			before: stack(service("web", "1"), one), now: stack(service("web", "1")), keep: map[string]bool{jobSpec(one): true},
			want: []string{"web: apply Deployment shop-web"},
		},
		"without a revision that has it, it goes": {
			before: stack(service("web", "1"), one), now: stack(service("web", "1")),
			want: []string{"web: apply Deployment shop-web", "prune Job migrate:1 of migrate"},
		},
		"a run of a job that left the spec goes, finished or not": {
			before: stack(service("web", "1"), one), deeds: []deed{to("shop-migrate", atWork)}, now: stack(service("web", "1")), keep: map[string]bool{jobSpec(one): true},
			want: []string{"web: apply Deployment shop-web", "prune Job migrate:1 of migrate"},
		},
		"a job gets a schedule: its run goes when it has ended": {
			before: stack(one), deeds: []deed{to("shop-migrate", atWork)}, now: stack(job("migrate", "1", nightly)),
			want: []string{"migrate: apply CronJob shop-migrate"},
		},
		"a job loses its schedule": {
			before: stack(job("migrate", "1", nightly)), now: stack(one),
			want: []string{"migrate: apply Job migrate:1; remove CronJob shop-migrate"},
		},
	})
}

func TestForRefusesWhatCanNeverWork(t *testing.T) {
	_, err := plan(stack(service("web", "1", needing("db"))), lives(service("old", "1")), nil)
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v, want one of type *Invalid", err)
	}
}
