package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func withBudget(c *testSpec) { c.Service.Disruption.Budget = "" }

func TestHasPendingChanges(t *testing.T) {
	web := service("web", "1", withPort)
	cases := map[string]struct {
		applied   []testSpec
		mutations []mutation
		spec      testSpec
		want      bool
	}{
		"every child is as applied": {applied: stack(web), spec: web},
		"suspension is no change":   {applied: stack(web), spec: service("web", "1", withPort, suspended)},
		"other components differ":   {applied: stack(web, service("api", "1")), spec: web},
		"earlier run of the job":    {applied: stack(job("migrate", "1"), job("migrate", "2")), spec: job("migrate", "2")},
		"nothing exists":            {spec: web, want: true},
		"another image":             {applied: stack(web), spec: service("web", "2", withPort), want: true},
		"another job":               {applied: stack(job("migrate", "1")), spec: job("migrate", "2"), want: true},
		"Deployment is missing":     {applied: stack(web), mutations: []mutation{deleteChild("Deployment", "shop-web")}, spec: web, want: true},
		"Service is missing":        {applied: stack(web), mutations: []mutation{deleteChild("Service", "shop-web")}, spec: web, want: true},
		"PodDisruptionBudget is to be removed": {
			applied: stack(service("web", "1", replicas(2), withBudget)), spec: service("web", "1", replicas(2)), want: true,
		},
		"PodDisruptionBudget that must not be pruned": {
			applied: stack(service("web", "1", replicas(2), withBudget)), spec: service("web", "1", replicas(2)),
			mutations: []mutation{mutateChild("shop-web", annotated[*policyv1.PodDisruptionBudget](appsapi.DefaultKeys.Prune, appsapi.PruneDisabled))},
		},
		"another applied hash": {
			applied: stack(web), spec: web, want: true,
			mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment](appsapi.DefaultKeys.AppliedHash, "other"))},
		},
		"child that cannot be rendered": {
			applied: stack(web), spec: web, want: true,
			mutations: []mutation{mutateChild("shop-web", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			observed := liveObjects(tc.applied...)
			for _, mutate := range tc.mutations {
				mutate(observed)
			}
			component := desired.Build(shop, expand(stack(tc.spec)), desired.ClusterState{})[0]
			if got := HasPendingChanges(appsapi.DefaultKeys, component, observed); got != tc.want {
				t.Errorf("pending changes: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestProtectedJobSpecs(t *testing.T) {
	first := desired.NewRevision(shop, "1111", nil, 1, []string{"import", "migrate"})
	second := desired.NewRevision(shop, "2222", nil, 2, []string{"migrate", "seed"})
	withoutJobs := desired.NewRevision(shop, "3333", nil, 3, nil)
	type list = []*appsv1.ControllerRevision
	cases := map[string]struct {
		revisions, pruned list
		want              map[string]bool
	}{
		"no revision":           {want: map[string]bool{}},
		"revision without jobs": {revisions: list{withoutJobs}, want: map[string]bool{}},
		"jobs of every revision": {
			revisions: list{first, second}, want: map[string]bool{"import": true, "migrate": true, "seed": true},
		},
		"not those of a pruned revision": {
			revisions: list{second, first}, pruned: list{first}, want: map[string]bool{"migrate": true, "seed": true},
		},
		"pruned revision is matched by name": {revisions: list{first}, pruned: list{first.DeepCopy()}, want: map[string]bool{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ProtectedJobSpecs(appsapi.DefaultKeys, tc.revisions, tc.pruned)); diff != "" {
				t.Errorf("protected job specs (-want +got):\n%s", diff)
			}
		})
	}
}
