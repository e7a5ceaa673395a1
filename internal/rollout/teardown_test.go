package rollout

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func TestPlanTeardown(t *testing.T) {
	db, api, web := service("db", "1", withPort), service("api", "1", dependsOn("db")), service("web", "1", dependsOn("api"))
	disabled := annotated[*appsv1.Deployment]("apps.holdfast.dev/prune", "disabled")
	cases := map[string]struct {
		live      []testSpec
		mutations []mutation
		want      []string
	}{
		"nothing exists":                     {want: []string{"done"}},
		"component without dependents first": {live: stack(db, api, web), want: []string{"delete Deployment shop-web of web"}},
		"then its dependency":                {live: stack(db, api), want: []string{"delete Deployment shop-api of api"}},
		"dependency of all components last":  {live: stack(db), want: []string{"delete Deployment shop-db of db"}},
		"Service after its pods":             {live: stack(db), mutations: []mutation{deleteChild("Deployment", "shop-db")}, want: []string{"delete Service shop-db of db"}},
		"independent components":             {live: stack(service("db", "1"), service("cache", "1")), want: []string{"delete Deployment shop-cache of cache", "delete Deployment shop-db of db"}},
		"former dependency counts":           {live: stack(service("db", "1"), service("web", "1")), mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment]("apps.holdfast.dev/previous-depends-on", "db"))}, want: []string{"delete Deployment shop-web of web"}},
		"waits for a terminating component and reports why": {
			live: stack(db, web, service("api", "1")), mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "db")), mutateChild("shop-web", terminating[*appsv1.Deployment]("example.com/a", "foregroundDeletion"))},
			want: []string{"delete Deployment shop-api of api", "wait for web: Waiting for Deployment shop/shop-web to be deleted (deletion requested at 2026-01-02T12:00:00Z): blocked by finalizers example.com/a"},
		},
		"waits for pods": {
			live: stack(service("db", "1"), service("web", "1", dependsOn("db"))), mutations: []mutation{mutateChild("shop-web", terminating[*appsv1.Deployment]("foregroundDeletion"))},
			want: []string{"wait for web: Waiting for the pods of Deployment shop/shop-web to terminate (deletion requested at 2026-01-02T12:00:00Z)"},
		},
		"terminating dependency is not reported before its turn": {
			live: stack(service("db", "1"), service("web", "1", dependsOn("db"))), mutations: []mutation{mutateChild("shop-db", terminating[*appsv1.Deployment]("example.com/a"))},
			want: []string{"delete Deployment shop-web of web"},
		},
		"cycle is deleted at once": {
			live: stack(service("a", "1", dependsOn("b")), service("b", "1", dependsOn("a"))),
			want: []string{"delete Deployment shop-a of a", "delete Deployment shop-b of b"},
		},
		"dependent of a cycle first": {
			live: stack(service("a", "1", dependsOn("b")), service("b", "1", dependsOn("a")), service("web", "1", dependsOn("a"))),
			want: []string{"delete Deployment shop-web of web"},
		},
		"component that depends on itself does not wait": {
			live: stack(service("a", "1")), mutations: []mutation{mutateChild("shop-a", annotated[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "a"))},
			want: []string{"delete Deployment shop-a of a"},
		},
		"unknown dependency does not block": {
			live: stack(service("db", "1")), mutations: []mutation{mutateChild("shop-db", annotated[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "gone"))},
			want: []string{"delete Deployment shop-db of db"},
		},
		"job is deleted in order": {
			live: stack(job("migrate", "1", dependsOn("db")), service("db", "1")),
			want: []string{"delete Job migrate:1 of migrate"},
		},
		"prune disabled": {live: stack(service("db", "1")), mutations: []mutation{mutateChild("shop-db", disabled)}, want: []string{"done"}},
		"child with prune disabled does not block": {live: stack(service("db", "1"), service("web", "1", dependsOn("db"))), mutations: []mutation{mutateChild("shop-web", disabled)}, want: []string{"delete Deployment shop-db of db"}},
		"child of another owner":                   {live: stack(db), mutations: []mutation{mutateChild("shop-db", ownedByOther[*appsv1.Deployment]), mutateChild("shop-db", ownedByOther[*corev1.Service])}, want: []string{"done"}},
		"orphaned child":                           {live: stack(service("db", "1")), mutations: []mutation{mutateChild("shop-db", unowned[*appsv1.Deployment])}, want: []string{"done"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := liveObjects(tc.live...)
			for _, d := range tc.mutations {
				d(seen)
			}
			if diff := cmp.Diff(tc.want, teardownLines(PlanTeardown(shop, seen))); diff != "" {
				t.Errorf("teardown (-want +got):\n%s", diff)
			}
		})
	}
}

func teardownLines(d Teardown) []string {
	var out []string
	for _, r := range d.Delete {
		out = append(out, fmt.Sprintf("delete %s of %s", describeID(r.Child), r.Component))
	}
	for _, k := range d.Terminating {
		out = append(out, fmt.Sprintf("wait for %s: %s", k.Component, k.Message))
	}
	if d.Done {
		out = append(out, "done")
	}
	return out
}

func TestRequiresOrder(t *testing.T) {
	cases := map[string]struct {
		spec      []testSpec
		live      []testSpec
		mutations []mutation
		want      bool
	}{
		"no dependencies":                 {spec: stack(service("a", "1"), service("b", "1")), live: stack(service("a", "1"), service("b", "1", withPort))},
		"dependency in the spec":          {spec: stack(service("a", "1", dependsOn("b")), service("b", "1")), want: true},
		"binding in the spec":             {spec: stack(service("a", "1", boundTo("b")), service("b", "1", withPort)), want: true},
		"dependency of an existing child": {spec: stack(service("a", "1"), service("b", "1")), live: stack(service("a", "1", dependsOn("b")), service("b", "1")), want: true},
		"dependency of terminating pods": {
			spec: stack(service("a", "1")), live: stack(service("a", "1"), service("b", "1")),
			mutations: []mutation{mutateChild("shop-a", annotated[*appsv1.Deployment]("apps.holdfast.dev/previous-depends-on", "b"))}, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := liveObjects(tc.live...)
			for _, d := range tc.mutations {
				d(seen)
			}
			if got := RequiresOrder(appsapi.DefaultKeys, desired.Build(shop, expand(tc.spec), desired.ClusterState{}), seen); got != tc.want {
				t.Errorf("ordered: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestHasData(t *testing.T) {
	claim := boundClaim("1Gi", "1Gi")
	retained := boundClaim("1Gi", "1Gi", withLabel(appsapi.DefaultKeys.Retained, "true"))
	theirs := boundClaim("1Gi", "1Gi", withLabel(appsapi.DefaultKeys.OwnerUID, "theirs"))
	web := service("web", "1")
	cases := map[string]struct {
		spec     []testSpec
		retained []desired.RetainedObject
		want     bool
	}{
		"nothing":                             {},
		"components without storage":          {spec: stack(web, job("migrate", "1"))},
		"component with storage":              {spec: stack(web, database("1Gi")), want: true},
		"component with a retained claim":     {spec: stack(database("1Gi")), retained: []desired.RetainedObject{retained}, want: true},
		"claim of a removed component":        {spec: stack(web), retained: []desired.RetainedObject{claim}, want: true},
		"Secret of a removed component":       {spec: stack(web), retained: []desired.RetainedObject{retained, authSecret(claim)}, want: true},
		"claim that is retained":              {spec: stack(web), retained: []desired.RetainedObject{retained}},
		"claim of another owner of that name": {spec: stack(web), retained: []desired.RetainedObject{theirs}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			components := desired.Build(shop, expand(tc.spec), desired.ClusterState{Retained: tc.retained})
			if got := HasData(shop, components, tc.retained); got != tc.want {
				t.Errorf("has data: %t, want %t", got, tc.want)
			}
		})
	}
}
