package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

func withStatefulPort(c *testSpec) { c.Stateful.Ports = []appsapi.Port{{Port: 5432}} }

// rolledOut applies a component of the new spec and rolls it out.
func rolledOut(name string, components []desired.Component) mutation {
	return func(observed Observed) {
		for _, c := range components {
			for _, child := range c.Children {
				if c.Name == name {
					observed[child.ID] = appliedChild(child, observed[child.ID])
				}
			}
		}
	}
}

// TestStatefulComponentKeepsItsStatefulSet renames only the Service: the data stays with the
// original StatefulSet.
func TestStatefulComponentKeepsItsStatefulSet(t *testing.T) {
	before := database("1Gi", withStatefulPort)
	renamed := database("1Gi", withStatefulPort, withResourceName("base"))
	user := service("web", "1", boundTo("db"))
	retained := []desired.RetainedObject{boundClaim("1Gi", "1Gi")}
	build := func(spec ...testSpec) []desired.Component {
		return desired.Build(shop, expand(spec), desired.ClusterState{Retained: retained})
	}
	apply := "db: apply StatefulSet shop-db, Service shop-db-headless, Service base"
	for name, tc := range map[string]planCase{
		"old Service stays until the new one exists": {
			applied: stack(before), spec: stack(renamed),
			want: []string{apply, "keep db: Service shop-db is kept until its replacement StatefulSet shop-db is ready"},
		},
		"old Service stays while pods use its address": {
			applied: stack(before, user), mutations: []mutation{rolledOut("db", build(renamed))}, spec: stack(renamed, user),
			want: []string{apply, "web: apply Deployment shop-web", `keep db: Service shop-db is kept until no pod of "web" depends on it`},
		},
		"old Service is deleted when no pod uses its address": {
			applied: stack(before, user), mutations: []mutation{rolledOut("db", build(renamed)), rolledOut("web", build(renamed, user))},
			spec: stack(renamed, user),
			want: []string{apply, "web: apply Deployment shop-web", "prune Service shop-db of db"},
		},
		"Service without ports is deleted at once": {
			applied: stack(before), spec: stack(database("1Gi")),
			want: []string{"db: apply StatefulSet shop-db, Service shop-db-headless; remove Service shop-db"},
		},
		"PodDisruptionBudget is deleted at once": {
			applied: stack(database("1Gi", statefulReplicas(2))), spec: stack(database("1Gi", statefulReplicas(1))),
			want: []string{"db: apply StatefulSet shop-db, Service shop-db-headless; remove PodDisruptionBudget shop-db"},
		},
		"PodDisruptionBudget does not wait for a renamed Service": {
			applied: stack(database("1Gi", statefulReplicas(2))), spec: stack(database("1Gi", statefulReplicas(1), withResourceName("base"))),
			want: []string{"db: apply StatefulSet shop-db, Service shop-db-headless; remove PodDisruptionBudget shop-db"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			observed := liveObjects(tc.applied...)
			for _, mutate := range tc.mutations {
				mutate(observed)
			}
			plan, err := NewPlan(Input{Owner: shop, Components: build(tc.spec...), Observed: observed, Retained: retained})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, planLines(plan)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
