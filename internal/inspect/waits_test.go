package inspect_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

const (
	chainSpec = `
components:
- {name: db, service: {image: "shop/db:1"}}
- {name: identity, dependsOn: [db], service: {image: "shop/identity:1"}}
- {name: front, dependsOn: [identity], service: {image: "shop/front:1"}}`
	// diamondSpec has two paths from front to db, and a healthy cache.
	diamondSpec = `
components:
- {name: front, dependsOn: [auth, cart], service: {image: "shop/front:1"}}
- {name: auth, dependsOn: [cache], service: {image: "shop/auth:1"}}
- {name: cart, dependsOn: [db, cache], service: {image: "shop/cart:1"}}
- {name: cache, service: {image: "shop/cache:1"}}
- {name: db, service: {image: "shop/db:1"}}`
	dbImageMissing = `Image "shop/db:1" does not exist in its registry (container app of Pod shop-db-6d5f7c8b9-x0k4z)`
)

func TestWaitCauses(t *testing.T) {
	tests := map[string]struct {
		spec   string
		change func(*fixtures.Fixture)
		want   []string // waiting components: dependencies, message, cause and fix
		health string
	}{
		"chain of three ends at the broken component": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetImageNotFound("db")
				s.SetWaiting("identity", "db")
				s.SetWaiting("front", "identity")
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: " + dbImageMissing, "Fix db; identity then continues automatically.",
				"front [identity] Waiting: waits for identity", "front waits for identity: identity waits for db: " + dbImageMissing,
				"Fix db; front then continues automatically.",
			},
			health: "Degraded",
		},
		"chain of three ends at the progressing component": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetStarting("db")
				s.SetWaiting("identity", "db")
				s.SetWaiting("front", "identity")
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: Deployment demo/shop-db waits for its pods to become ready",
				"Fix db; identity then continues automatically.",
				"front [identity] Waiting: waits for identity",
				"front waits for identity: identity waits for db: Deployment demo/shop-db waits for its pods to become ready",
				"Fix db; front then continues automatically.",
			},
			health: "Progressing",
		},
		"path to the broken component is preferred": {
			spec: diamondSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db", "cache")
				s.SetImageNotFound("db")
				s.SetStarting("cache")
				s.SetWaiting("cart", "db")
				s.SetWaiting("auth", "cache")
				s.SetWaiting("front", "auth")
			},
			want: []string{
				"front [auth cart] Waiting: waits for auth, cart", "front waits for cart: cart waits for db: " + dbImageMissing,
				"Fix db; front then continues automatically.",
				"auth [cache] Waiting: waits for cache", "auth waits for cache: Deployment demo/shop-cache waits for its pods to become ready",
				"Fix cache; auth then continues automatically.",
				"cart [cache db] Waiting: waits for cache, db", "cart waits for db: " + dbImageMissing, "Fix db; cart then continues automatically.",
			},
			health: "Degraded",
		},
		"both paths of a diamond end at the same component": {
			spec: diamondSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db", "cache")
				s.SetImageNotFound("db")
				s.SetWaiting("cart", "db")
				s.SetWaiting("front", "cart")
				s.Run("auth")
			},
			want: []string{
				"front [cart] Waiting: waits for cart", "front waits for cart: cart waits for db: " + dbImageMissing,
				"Fix db; front then continues automatically.",
				"cart [db] Waiting: waits for db", "cart waits for db: " + dbImageMissing, "Fix db; cart then continues automatically.",
			},
			health: "Degraded",
		},
		"running pods, only the change waits": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
				s.SetWaiting("identity", "db")
			},
			want: []string{"identity [db] Waiting: its latest change waits for db", "identity waits for db: " + dbImageMissing,
				"Fix db; identity then continues automatically."},
			health: "Degraded",
		},
		"error of the component itself comes first": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
				s.SetCrashLoop("identity", 3, "")
				s.SetWaiting("identity", "db")
			},
			want: []string{"identity [db] Degraded: Container app of Pod shop-identity-6d5f7c8b9-x0k4z crashes: it exited with code 3",
				"identity waits for db: " + dbImageMissing, "Fix db; identity then continues automatically."},
			health: "Degraded",
		},
		"notice does not hide the wait": {
			spec: strings.Replace(chainSpec, `"shop/identity:1"`, `"shop/identity:1", replicas: 0`, 1),
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
				s.SetWaiting("identity", "db")
				s.SetWaiting("front", "identity")
				fixtures.Get[*appsv1.Deployment](s, "shop-identity").Generation = 2
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: " + dbImageMissing, "Fix db; identity then continues automatically.",
				"front [identity] Waiting: its latest change waits for identity", "front waits for identity: identity waits for db: " + dbImageMissing,
				"Fix db; front then continues automatically.",
			},
			health: "Degraded",
		},
		"dependency is satisfied, but not observed yet": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetWaiting("identity", "db")
			},
			health: "Progressing",
		},
		"component that does not wait": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
			},
			health: "Degraded",
		},
		"scheduled job does not block": {
			spec: `
components:
- {name: nightly, job: {image: "shop/nightly:1", schedule: "0 3 * * *"}}
- {name: db, service: {image: "shop/db:1"}}
- {name: front, dependsOn: [db, nightly], service: {image: "shop/front:1"}}`,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetImageNotFound("db")
				s.SetWaiting("front", "db")
			},
			want: []string{"front [db] Waiting: waits for db", "front waits for db: " + dbImageMissing,
				"Fix db; front then continues automatically."},
			health: "Degraded",
		},
		"status counts for forbidden kinds": {
			spec: diamondSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.ForbiddenKinds = []string{"Deployment"}
				s.SetComponentStatus("cache", "Healthy", "Reconciled", "")
				s.SetComponentStatus("db", "Degraded", "ComponentDegraded", dbImageMissing)
				s.SetWaiting("cart", "db")
			},
			want: []string{"cart [db] Waiting: waits for db", "cart waits for db: Deployment shop-db was not checked",
				"Fix db; cart then continues automatically."},
			health: "Unknown",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := fixtures.New("appstack", "shop", tc.spec)
			s.SetReadyCondition("False", "WaitingForDependency", "Something waits")
			tc.change(s)
			v := inspect.Evaluate(s.Input())
			if diff := cmp.Diff(tc.want, formatWaits(v)); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if string(v.Health) != tc.health {
				t.Errorf("health of the application: got %s, want %s", v.Health, tc.health)
			}
		})
	}
}

func formatWaits(v inspect.View) []string {
	var out []string
	for _, c := range v.Components {
		if len(c.WaitsFor) == 0 {
			continue
		}
		out = append(out, c.Name+" ["+strings.Join(c.WaitsFor, " ")+"] "+string(c.Health)+": "+c.Message)
		for _, x := range c.Causes {
			if x.Code == explain.DependencyWait {
				out = append(out, x.Message, x.Fix)
			}
		}
	}
	return out
}

// A job also waits for its previous run, which is no component.
func TestJobWaitsForPreviousRun(t *testing.T) {
	s := newShop()
	s.Remove("Job", jobName())
	s.SetReadyCondition("False", "WaitingForDependency", `Component "migrate": its previous run (Job shop-migrate-1) has not finished`)
	s.SetComponentStatus("migrate", "Waiting", "WaitingForDependency",
		`Component "migrate": its previous run (Job shop-migrate-1) has not finished`)
	v := inspect.Evaluate(s.Input())
	if c := v.Component("migrate"); c.Health != inspect.Waiting || c.Message != "its previous run (Job shop-migrate-1) has not finished" {
		t.Errorf("got %s: %s", c.Health, c.Message)
	}
}
