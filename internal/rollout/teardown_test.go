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
		live      []appsapi.Component
		mutations []mutation
		want      []string
	}{
		"nothing is left":                     {want: []string{"done"}},
		"what nobody needs goes first":        {live: stack(db, api, web), want: []string{"delete Deployment shop-web of web"}},
		"then the next":                       {live: stack(db, api), want: []string{"delete Deployment shop-api of api"}},
		"at last what all needed":             {live: stack(db), want: []string{"delete Deployment shop-db of db"}},
		"its Service when its pods are gone":  {live: stack(db), mutations: []mutation{deleteChild("Deployment", "shop-db")}, want: []string{"delete Service shop-db of db"}},
		"side by side":                        {live: stack(service("db", "1"), service("cache", "1")), want: []string{"delete Deployment shop-cache of cache", "delete Deployment shop-db of db"}},
		"what was needed before, also counts": {live: stack(service("db", "1"), service("web", "1")), mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment]("apps.holdfast.dev/previous-depends-on", "db"))}, want: []string{"delete Deployment shop-web of web"}},
		"the order waits for what is on its way out, and says why": {
			live: stack(db, web, service("api", "1")), mutations: []mutation{mutateChild("shop-web", annotated[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "db")), mutateChild("shop-web", terminating[*appsv1.Deployment]("example.com/a", "foregroundDeletion"))},
			want: []string{"delete Deployment shop-api of api", "wait for web: Deployment shop/shop-web is being deleted since 2026-01-02T12:00:00Z and waits for the finalizers example.com/a"},
		},
		"pods are waited for, too": {
			live: stack(service("db", "1"), service("web", "1", dependsOn("db"))), mutations: []mutation{mutateChild("shop-web", terminating[*appsv1.Deployment]("foregroundDeletion"))},
			want: []string{"wait for web: Deployment shop/shop-web is being deleted since 2026-01-02T12:00:00Z and waits for its pods to end"},
		},
		"what others need is not reported before its turn": {
			live: stack(service("db", "1"), service("web", "1", dependsOn("db"))), mutations: []mutation{mutateChild("shop-db", terminating[*appsv1.Deployment]("example.com/a"))},
			want: []string{"delete Deployment shop-web of web"},
		},
		"a circle goes all at once": {
			live: stack(service("a", "1", dependsOn("b")), service("b", "1", dependsOn("a"))),
			want: []string{"delete Deployment shop-a of a", "delete Deployment shop-b of b"},
		},
		"first what is free beside a circle": {
			live: stack(service("a", "1", dependsOn("b")), service("b", "1", dependsOn("a")), service("web", "1", dependsOn("a"))),
			want: []string{"delete Deployment shop-web of web"},
		},
		"what names itself waits for nobody": {
			live: stack(service("a", "1")), mutations: []mutation{mutateChild("shop-a", annotated[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "a"))},
			want: []string{"delete Deployment shop-a of a"},
		},
		"what names nothing that lives waits for nobody": {
			live: stack(service("db", "1")), mutations: []mutation{mutateChild("shop-db", annotated[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "gone"))},
			want: []string{"delete Deployment shop-db of db"},
		},
		"a job goes in its turn": {
			live: stack(job("migrate", "1", dependsOn("db")), service("db", "1")),
			want: []string{"delete Job migrate:1 of migrate"},
		},
		"kept on purpose":           {live: stack(service("db", "1")), mutations: []mutation{mutateChild("shop-db", disabled)}, want: []string{"done"}},
		"what is kept needs nobody": {live: stack(service("db", "1"), service("web", "1", dependsOn("db"))), mutations: []mutation{mutateChild("shop-web", disabled)}, want: []string{"delete Deployment shop-db of db"}},
		"somebody else's":           {live: stack(db), mutations: []mutation{mutateChild("shop-db", ownedByOther[*appsv1.Deployment]), mutateChild("shop-db", ownedByOther[*corev1.Service])}, want: []string{"done"}},
		"nobody's: it was orphaned": {live: stack(service("db", "1")), mutations: []mutation{mutateChild("shop-db", unowned[*appsv1.Deployment])}, want: []string{"done"}},
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
		spec      []appsapi.Component
		live      []appsapi.Component
		mutations []mutation
		want      bool
	}{
		"nothing needs anything":      {spec: stack(service("a", "1"), service("b", "1")), live: stack(service("a", "1"), service("b", "1", withPort))},
		"the spec has a dependency":   {spec: stack(service("a", "1", dependsOn("b")), service("b", "1")), want: true},
		"the spec has a binding":      {spec: stack(service("a", "1", boundTo("b")), service("b", "1", withPort)), want: true},
		"what lives has a dependency": {spec: stack(service("a", "1"), service("b", "1")), live: stack(service("a", "1", dependsOn("b")), service("b", "1")), want: true},
		"pods on their way out have one": {
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
			if got := RequiresOrder(desired.Build(shop, tc.spec, desired.ClusterState{}), seen); got != tc.want {
				t.Errorf("ordered: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestHasData(t *testing.T) {
	claim := boundClaim("1Gi", "1Gi")
	retained := boundClaim("1Gi", "1Gi", withLabel(appsapi.LabelRetained, "true"))
	theirs := boundClaim("1Gi", "1Gi", withLabel(appsapi.LabelOwnerUID, "theirs"))
	web := service("web", "1")
	cases := map[string]struct {
		spec     []appsapi.Component
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
			components := desired.Build(shop, tc.spec, desired.ClusterState{Retained: tc.retained})
			if got := HasData(shop, components, tc.retained); got != tc.want {
				t.Errorf("has data: %t, want %t", got, tc.want)
			}
		})
	}
}
