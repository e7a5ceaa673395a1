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

// planCase is a spec, what lives when it comes, and what is planned then.
type planCase struct {
	applied       []appsapi.Component // was applied and is well
	mutations     []mutation          // what happened since
	spec          []appsapi.Component
	protectedJobs map[string]bool
	want          []string
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := planWith(tc.spec, liveObjects(tc.applied...), tc.protectedJobs, tc.mutations...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, planLines(got)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewComponentsWaitForDependencies(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"nothing is there": {
			spec: stack(service("db", "1"), service("web", "1", withPort), job("migrate", "1"), job("report", "1", nightly)),
			want: []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web", "migrate: apply Job migrate:1", "report: apply CronJob shop-report"},
		},
		"a chain, and nothing is there": {
			spec: stack(service("web", "1", withPort, dependsOn("api")), service("api", "1", withPort, dependsOn("db")), service("db", "1")),
			want: []string{"web: wait for api", "api: wait for db", "db: apply Deployment shop-db"},
		},
		"a dependency is not ready": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"a dependency is ready": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web"},
		},
		"one of two dependencies is ready": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "1"), service("cache", "1"), service("web", "1", dependsOn("db", "cache"))),
			want:    []string{"db: apply Deployment shop-db", "cache: apply Deployment shop-cache", "web: wait for cache"},
		},
		"a binding is a dependency": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"a bound component whose Service is somebody else's is not reached": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*corev1.Service])},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"who is not bound does not need a Service": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*corev1.Service])},
			spec:      stack(service("db", "1", withPort), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: apply Deployment shop-web"},
		},
		"a majority is ready": {
			applied:   stack(service("db", "1", replicas(3))),
			mutations: []mutation{mutateChild("shop-db", readyReplicas(2))},
			spec:      stack(service("db", "1", replicas(3)), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"less than a majority is ready": {
			applied:   stack(service("db", "1", replicas(3))),
			mutations: []mutation{mutateChild("shop-db", readyReplicas(1))},
			spec:      stack(service("db", "1", replicas(3)), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"a dependency is ready, but at an old template": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "2"), service("web", "1", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"a dependency is scaled, which is no other template": {
			applied: stack(service("db", "1", replicas(1))),
			spec:    stack(service("db", "1", replicas(3)), service("web", "1", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"a dependency that cannot be rendered counts as it is": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", severalContainers)},
			spec:      stack(service("db", "2"), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"a Service that exists passes": {
			applied:   stack(service("web", "1", withPort, dependsOn("db")), service("db", "1")),
			mutations: []mutation{deleteChild("Deployment", "shop-web"), mutateChild("shop-db", unready)},
			spec:      stack(service("web", "1", withPort, dependsOn("db")), service("db", "1")),
			want:      []string{"web: apply Service shop-web; wait for db", "db: apply Deployment shop-db"},
		},
		"a binding waits for the Service, too": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{deleteChild("Service", "shop-db")},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db")), service("log", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db", "log: apply Deployment shop-log"},
		},
		"a binding to the Service of somebody else would lead elsewhere": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*corev1.Service])},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"a dependency of somebody else does not count": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*appsv1.Deployment])},
			spec:      stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"what somebody else has is left to the apply, which names the owner": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-web", ownedByOther[*appsv1.Deployment]), mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
	})
}

// severalContainers makes a Deployment one of those that cannot be taken over.
func severalContainers(d *appsv1.Deployment) {
	annotated[*appsv1.Deployment](appsapi.AnnotationAdopt, "true")(d)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "one"}, {Name: "two"}}
}

func TestChangesWaitForDependencies(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"new pods wait for a dependency": {
			applied:   stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "2", withPort, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods, Service shop-web; wait for db"},
		},
		"new pods do not wait for one that is ready": {
			applied: stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			spec:    stack(service("db", "1"), service("web", "2", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"new pods wait for the new pods of a dependency": {
			applied: stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			spec:    stack(service("db", "2"), service("web", "2", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"the same pods wait for nobody": {
			applied:   stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web"},
		},
		"another number of pods waits for nobody": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", replicas(5), dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"a new dependency is waited for": {
			applied: stack(service("web", "1")),
			spec:    stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"a workload without its owner reference keeps its pods, too": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready), mutateChild("shop-web", unowned[*appsv1.Deployment])},
			spec:      stack(service("db", "1"), service("web", "2", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"a workload whose owner lets us in keeps its pods, too": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready), mutateChild("shop-web", unowned[*appsv1.Deployment]), mutateChild("shop-web", annotated[*appsv1.Deployment](appsapi.AnnotationAdopt, "true"))},
			spec:      stack(service("db", "1"), service("web", "2", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pods; wait for db"},
		},
		"the next runs of a CronJob wait": {
			applied:   stack(service("db", "1"), job("report", "1", nightly, dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), job("report", "2", nightly, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "report: apply CronJob shop-report without its pods; wait for db"},
		},
	})
}

// TestPruneSuspended tells a suspended application that something left from one that nothing did.
func TestPruneSuspended(t *testing.T) {
	both := stack(service("db", "1", suspended), service("web", "1", suspended))
	for name, tc := range map[string]struct {
		now  []appsapi.Component
		want bool
	}{
		"nothing left":                    {both, false},
		"a component left":                {both[:1], true},
		"a component left, others may go": {stack(service("db", "1")), false},
	} {
		got, err := planWith(tc.now, liveObjects(both...), nil)
		if err != nil || got.PruneSuspended != tc.want {
			t.Errorf("%s: held %t, %v", name, got.PruneSuspended, err)
		}
	}
}

func TestSuspended(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"a suspended dependency that is ready counts, at whatever template": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "2", suspended), service("web", "1", dependsOn("db"))),
			want:    []string{"web: apply Deployment shop-web"},
		},
		"a suspended dependency that is not ready does not count": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1", suspended), service("web", "1", dependsOn("db"))),
			want:      []string{"web: wait for db"},
		},
		"a suspended dependency that is not there does not count": {
			spec: stack(service("db", "1", suspended), service("web", "1", dependsOn("db"))),
			want: []string{"web: wait for db"},
		},
		"what a suspended component no longer wants stays": {
			applied: stack(service("db", "1"), service("web", "1", withPort)),
			spec:    stack(service("db", "1"), service("web", "1", suspended)),
			want:    []string{"db: apply Deployment shop-db"},
		},
		"what a suspended component was called before stays, and its earlier runs": {
			applied:   stack(service("db", "1"), service("web", "1"), job("migrate", "1")),
			mutations: []mutation{addLive(service("web", "1", withResourceName("front")), job("migrate", "2"))},
			spec:      stack(service("db", "1"), service("web", "1", withResourceName("front"), suspended), job("migrate", "2", suspended)),
			want:      []string{"db: apply Deployment shop-db"},
		},
		"all are suspended: hands off, also from what left the spec": {
			applied: stack(service("db", "1"), service("old", "1"), service("web", "1", withPort)),
			spec:    stack(service("db", "2", suspended), service("web", "1", suspended)),
		},
	})
}

func TestJobs(t *testing.T) {
	one, two := job("migrate", "1"), job("migrate", "2")
	later := service("web", "1", dependsOn("migrate"))
	runPlanCases(t, map[string]planCase{
		"a job gates until it is complete": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: wait for migrate"},
		},
		"a job that failed gates": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobFailed)}, spec: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: wait for migrate"},
		},
		"a job that is complete gates nobody": {
			applied: stack(one), spec: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: apply Deployment shop-web"},
		},
		"a CronJob gates nobody, not even while it is not there": {
			spec: stack(job("report", "1", nightly), service("web", "1", dependsOn("report"))),
			want: []string{"report: apply CronJob shop-report", "web: apply Deployment shop-web"},
		},
		"a job that is there waits for nobody": {
			applied:   stack(service("db", "1"), job("migrate", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready), mutateChild("shop-migrate", jobStarting)},
			spec:      stack(service("db", "1"), job("migrate", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "migrate: apply Job migrate:1"},
		},
		"an earlier run that is idle, as far as one knows, is ended and waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobStarting)}, spec: stack(two),
			want: []string{"migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"an earlier run that is at work is ended and waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(two),
			want: []string{"migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"an earlier run that is still ending is waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning), mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))}, spec: stack(two),
			want: []string{"migrate: wait for the end of Job migrate:1"},
		},
		"an earlier run whose pod is not counted any more is waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobStarting), mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))}, spec: stack(two),
			want: []string{"migrate: wait for the end of Job migrate:1"},
		},
		"an earlier run that is over is not waited for while it is deleted": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))}, spec: stack(two),
			want: []string{"migrate: apply Job migrate:2"},
		},
		"an earlier run at work goes before the wait for a dependency": {
			applied: stack(service("db", "1"), one), mutations: []mutation{mutateChild("shop-migrate", jobRunning), mutateChild("shop-db", unready)},
			spec: stack(service("db", "1"), job("migrate", "2", dependsOn("db"))),
			want: []string{"db: apply Deployment shop-db", "migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"an earlier run is ended also while the new one has to wait": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobStarting)},
			spec: stack(service("db", "1"), job("migrate", "2", dependsOn("db"))),
			want: []string{"db: apply Deployment shop-db", "migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"the run of another job is left alone": {
			applied: stack(one, job("other", "1")), mutations: []mutation{mutateChild("shop-migrate", jobRunning), mutateChild("shop-other", jobRunning)},
			spec: stack(one, job("other", "1")),
			want: []string{"migrate: apply Job migrate:1", "other: apply " + describeID(desired.Build(shop, stack(job("other", "1")), desired.ClusterState{})[0].Workload)},
		},
		"a finished run that must not run twice is kept": {
			applied: stack(one), spec: stack(two), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"migrate: apply Job migrate:2"},
		},
		"a failed run that must not run twice is kept": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobFailed)}, spec: stack(two), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"migrate: apply Job migrate:2"},
		},
		"other finished runs are pruned": {
			applied: stack(one), mutations: []mutation{addLive(two)}, spec: stack(job("migrate", "3")), protectedJobs: map[string]bool{jobSpecHash(two): true},
			want: []string{"migrate: apply Job migrate:3", "prune Job migrate:1 of migrate"},
		},
		"a finished run of a job that left the spec is kept, too: one may go back to it": {
			applied: stack(service("web", "1"), one), spec: stack(service("web", "1")), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"web: apply Deployment shop-web"},
		},
		"without a revision that has it, it goes": {
			applied: stack(service("web", "1"), one), spec: stack(service("web", "1")),
			want: []string{"web: apply Deployment shop-web", "prune Job migrate:1 of migrate"},
		},
		"a run of a job that left the spec goes, finished or not": {
			applied: stack(service("web", "1"), one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(service("web", "1")), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"web: apply Deployment shop-web", "prune Job migrate:1 of migrate"},
		},
		"a job gets a schedule: its run goes when it has ended": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(job("migrate", "1", nightly)),
			want: []string{"migrate: apply CronJob shop-migrate"},
		},
		"a job loses its schedule": {
			applied: stack(job("migrate", "1", nightly)), spec: stack(one),
			want: []string{"migrate: apply Job migrate:1; remove CronJob shop-migrate"},
		},
	})
}

func TestNewPlanRejectsInvalidSpec(t *testing.T) {
	_, err := planWith(stack(service("web", "1", dependsOn("db"))), liveObjects(service("old", "1")), nil)
	var invalid *InvalidSpec
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v, want one of type *Invalid", err)
	}
}
