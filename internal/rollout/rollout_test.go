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

// planCase is a spec, the live objects, and the expected plan.
type planCase struct {
	applied       []testSpec // applied and ready
	mutations     []mutation // later changes
	spec          []testSpec
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
		"nothing exists": {
			spec: stack(service("db", "1"), service("web", "1", withPort), job("migrate", "1"), job("report", "1", nightly)),
			want: []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web", "migrate: apply Job migrate:1", "report: apply CronJob shop-report"},
		},
		"chain, nothing exists": {
			spec: stack(service("web", "1", withPort, dependsOn("api")), service("api", "1", withPort, dependsOn("db")), service("db", "1")),
			want: []string{"web: wait for api", "api: wait for db", "db: apply Deployment shop-db"},
		},
		"dependency is not ready": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"dependency is ready": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web"},
		},
		"one of two dependencies is ready": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "1"), service("cache", "1"), service("web", "1", dependsOn("db", "cache"))),
			want:    []string{"db: apply Deployment shop-db", "cache: apply Deployment shop-cache", "web: wait for cache"},
		},
		"binding is a dependency": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"Service of the bound component has another owner": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*corev1.Service])},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"dependency without a binding needs no Service": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*corev1.Service])},
			spec:      stack(service("db", "1", withPort), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: apply Deployment shop-web"},
		},
		"majority is ready": {
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
		"dependency is ready with an old template": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "2"), service("web", "1", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"dependency is scaled without a template change": {
			applied: stack(service("db", "1", replicas(1))),
			spec:    stack(service("db", "1", replicas(3)), service("web", "1", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"dependency cannot be rendered": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", severalContainers)},
			spec:      stack(service("db", "2"), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"existing Service is applied": {
			applied:   stack(service("web", "1", withPort, dependsOn("db")), service("db", "1")),
			mutations: []mutation{deleteChild("Deployment", "shop-web"), mutateChild("shop-db", unready)},
			spec:      stack(service("web", "1", withPort, dependsOn("db")), service("db", "1")),
			want:      []string{"web: apply Service shop-web; wait for db", "db: apply Deployment shop-db"},
		},
		"binding also waits for the Service": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{deleteChild("Service", "shop-db")},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db")), service("log", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db", "log: apply Deployment shop-log"},
		},
		"binding to a Service of another owner waits": {
			applied:   stack(service("db", "1", withPort)),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*corev1.Service])},
			spec:      stack(service("db", "1", withPort), service("web", "1", boundTo("db"))),
			want:      []string{"db: apply Deployment shop-db, Service shop-db", "web: wait for db"},
		},
		"dependency has another owner": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", ownedByOther[*appsv1.Deployment])},
			spec:      stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: wait for db"},
		},
		"Deployment of another owner is left to the apply": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-web", ownedByOther[*appsv1.Deployment]), mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template; wait for db"},
		},
	})
}

// severalContainers gives a Deployment containers that prevent its adoption, so that rendering fails.
func severalContainers(d *appsv1.Deployment) {
	annotated[*appsv1.Deployment](appsapi.DefaultKeys.Adopt, "true")(d)
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "one"}, {Name: "two"}}
}

func TestChangesWaitForDependencies(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"new pods wait for a dependency": {
			applied:   stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "2", withPort, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template, Service shop-web; wait for db"},
		},
		"new pods do not wait for a ready dependency": {
			applied: stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			spec:    stack(service("db", "1"), service("web", "2", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"new pods wait for the new pods of a dependency": {
			applied: stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			spec:    stack(service("db", "2"), service("web", "2", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template; wait for db"},
		},
		"unchanged pods do not wait": {
			applied:   stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", withPort, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web, Service shop-web"},
		},
		"scaling does not wait": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), service("web", "1", replicas(5), dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web"},
		},
		"new dependency is waited for": {
			applied: stack(service("web", "1")),
			spec:    stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			want:    []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template; wait for db"},
		},
		"workload without its owner reference keeps its pods": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready), mutateChild("shop-web", unowned[*appsv1.Deployment])},
			spec:      stack(service("db", "1"), service("web", "2", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template; wait for db"},
		},
		"workload that can be adopted keeps its pods": {
			applied:   stack(service("db", "1"), service("web", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready), mutateChild("shop-web", unowned[*appsv1.Deployment]), mutateChild("shop-web", annotated[*appsv1.Deployment](appsapi.DefaultKeys.Adopt, "true"))},
			spec:      stack(service("db", "1"), service("web", "2", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "web: apply Deployment shop-web without its pod template; wait for db"},
		},
		"next runs of a CronJob wait": {
			applied:   stack(service("db", "1"), job("report", "1", nightly, dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1"), job("report", "2", nightly, dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "report: apply CronJob shop-report without its pod template; wait for db"},
		},
	})
}

// TestPruneSuspended checks a suspended application with and without a removed component.
func TestPruneSuspended(t *testing.T) {
	both := stack(service("db", "1", suspended), service("web", "1", suspended))
	for name, tc := range map[string]struct {
		now  []testSpec
		want bool
	}{
		"nothing left":                         {both, false},
		"component removed":                    {both[:1], true},
		"component removed, others are active": {stack(service("db", "1")), false},
	} {
		got, err := planWith(tc.now, liveObjects(both...), nil)
		if err != nil || got.PruneSuspended != tc.want {
			t.Errorf("%s: PruneSuspended %t, error %v", name, got.PruneSuspended, err)
		}
	}
}

func TestSuspended(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"suspended dependency is ready with any template": {
			applied: stack(service("db", "1")),
			spec:    stack(service("db", "2", suspended), service("web", "1", dependsOn("db"))),
			want:    []string{"web: apply Deployment shop-web"},
		},
		"suspended dependency is not ready": {
			applied:   stack(service("db", "1")),
			mutations: []mutation{mutateChild("shop-db", unready)},
			spec:      stack(service("db", "1", suspended), service("web", "1", dependsOn("db"))),
			want:      []string{"web: wait for db"},
		},
		"suspended dependency does not exist": {
			spec: stack(service("db", "1", suspended), service("web", "1", dependsOn("db"))),
			want: []string{"web: wait for db"},
		},
		"unneeded children of a suspended component stay": {
			applied: stack(service("db", "1"), service("web", "1", withPort)),
			spec:    stack(service("db", "1"), service("web", "1", suspended)),
			want:    []string{"db: apply Deployment shop-db"},
		},
		"renamed children and earlier runs of a suspended component stay": {
			applied:   stack(service("db", "1"), service("web", "1"), job("migrate", "1")),
			mutations: []mutation{addLive(service("web", "1", withResourceName("front")), job("migrate", "2"))},
			spec:      stack(service("db", "1"), service("web", "1", withResourceName("front"), suspended), job("migrate", "2", suspended)),
			want:      []string{"db: apply Deployment shop-db"},
		},
		"removed components stay while everything is suspended": {
			applied: stack(service("db", "1"), service("old", "1"), service("web", "1", withPort)),
			spec:    stack(service("db", "2", suspended), service("web", "1", suspended)),
		},
	})
}

func TestJobs(t *testing.T) {
	one, two := job("migrate", "1"), job("migrate", "2")
	later := service("web", "1", dependsOn("migrate"))
	runPlanCases(t, map[string]planCase{
		"active job blocks dependents": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: wait for migrate"},
		},
		"failed job blocks dependents": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobFailed)}, spec: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: wait for migrate"},
		},
		"complete job does not block": {
			applied: stack(one), spec: stack(one, later),
			want: []string{"migrate: apply Job migrate:1", "web: apply Deployment shop-web"},
		},
		"missing CronJob does not block": {
			spec: stack(job("report", "1", nightly), service("web", "1", dependsOn("report"))),
			want: []string{"report: apply CronJob shop-report", "web: apply Deployment shop-web"},
		},
		"existing job does not wait": {
			applied:   stack(service("db", "1"), job("migrate", "1", dependsOn("db"))),
			mutations: []mutation{mutateChild("shop-db", unready), mutateChild("shop-migrate", jobStarting)},
			spec:      stack(service("db", "1"), job("migrate", "1", dependsOn("db"))),
			want:      []string{"db: apply Deployment shop-db", "migrate: apply Job migrate:1"},
		},
		"earlier run without counted pods is deleted and waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobStarting)}, spec: stack(two),
			want: []string{"migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"active earlier run is deleted and waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(two),
			want: []string{"migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"terminating earlier run is waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning), mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))}, spec: stack(two),
			want: []string{"migrate: wait for the end of Job migrate:1"},
		},
		"terminating earlier run without counted pods is waited for": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobStarting), mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))}, spec: stack(two),
			want: []string{"migrate: wait for the end of Job migrate:1"},
		},
		"finished earlier run is not waited for during its deletion": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", terminating[*batchv1.Job]("foregroundDeletion"))}, spec: stack(two),
			want: []string{"migrate: apply Job migrate:2"},
		},
		"active earlier run is deleted before waiting for a dependency": {
			applied: stack(service("db", "1"), one), mutations: []mutation{mutateChild("shop-migrate", jobRunning), mutateChild("shop-db", unready)},
			spec: stack(service("db", "1"), job("migrate", "2", dependsOn("db"))),
			want: []string{"db: apply Deployment shop-db", "migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"earlier run is deleted while the new one waits": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobStarting)},
			spec: stack(service("db", "1"), job("migrate", "2", dependsOn("db"))),
			want: []string{"db: apply Deployment shop-db", "migrate: remove Job migrate:1; wait for the end of Job migrate:1"},
		},
		"run of another job is not changed": {
			applied: stack(one, job("other", "1")), mutations: []mutation{mutateChild("shop-migrate", jobRunning), mutateChild("shop-other", jobRunning)},
			spec: stack(one, job("other", "1")),
			want: []string{"migrate: apply Job migrate:1", "other: apply " + describeID(desired.Build(shop, expand(stack(job("other", "1"))), desired.ClusterState{})[0].Workload)},
		},
		"protected finished run is kept": {
			applied: stack(one), spec: stack(two), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"migrate: apply Job migrate:2"},
		},
		"protected failed run is kept": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobFailed)}, spec: stack(two), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"migrate: apply Job migrate:2"},
		},
		"other finished runs are pruned": {
			applied: stack(one), mutations: []mutation{addLive(two)}, spec: stack(job("migrate", "3")), protectedJobs: map[string]bool{jobSpecHash(two): true},
			want: []string{"migrate: apply Job migrate:3", "prune Job migrate:1 of migrate"},
		},
		"protected run of a removed job is kept": {
			applied: stack(service("web", "1"), one), spec: stack(service("web", "1")), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"web: apply Deployment shop-web"},
		},
		"unprotected run of a removed job is deleted": {
			applied: stack(service("web", "1"), one), spec: stack(service("web", "1")),
			want: []string{"web: apply Deployment shop-web", "prune Job migrate:1 of migrate"},
		},
		"active run of a removed job is deleted": {
			applied: stack(service("web", "1"), one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(service("web", "1")), protectedJobs: map[string]bool{jobSpecHash(one): true},
			want: []string{"web: apply Deployment shop-web", "prune Job migrate:1 of migrate"},
		},
		"run of a job that gets a schedule stays until it finishes": {
			applied: stack(one), mutations: []mutation{mutateChild("shop-migrate", jobRunning)}, spec: stack(job("migrate", "1", nightly)),
			want: []string{"migrate: apply CronJob shop-migrate"},
		},
		"job loses its schedule": {
			applied: stack(job("migrate", "1", nightly)), spec: stack(one),
			want: []string{"migrate: apply Job migrate:1; remove CronJob shop-migrate"},
		},
	})
}

func TestNewPlanRejectsInvalidSpec(t *testing.T) {
	_, err := planWith(stack(service("web", "1", dependsOn("db"))), liveObjects(service("old", "1")), nil)
	var invalid *InvalidSpec
	if !errors.As(err, &invalid) {
		t.Fatalf("error %v, want an *InvalidSpec", err)
	}
}
