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
	// diamondSpec has two ways from front to db, and one to a cache that nothing is wrong with.
	diamondSpec = `
components:
- {name: front, dependsOn: [auth, cart], service: {image: "shop/front:1"}}
- {name: auth, dependsOn: [cache], service: {image: "shop/auth:1"}}
- {name: cart, dependsOn: [db, cache], service: {image: "shop/cart:1"}}
- {name: cache, service: {image: "shop/cache:1"}}
- {name: db, service: {image: "shop/db:1"}}`
	dbImageMissing = `Image "shop/db:1" does not exist in its registry (container app of pod shop-db-6d5f7c8b9-x0k4z)`
)

func TestWaitCauses(t *testing.T) {
	tests := map[string]struct {
		spec   string
		change func(*fixtures.Fixture)
		want   []string // components that wait: for whom, what they say, their cause and its fix
		health string
	}{
		"a chain of three ends with what is broken": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetImageNotFound("db")
				s.SetWaiting("identity", "db")
				s.SetWaiting("front", "identity")
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: " + dbImageMissing, "See to db; identity goes on by itself.",
				"front [identity] Waiting: waits for identity", "front waits for identity: identity waits for db: " + dbImageMissing, "See to db; front goes on by itself.",
			},
			health: "Degraded",
		},
		"a chain of three ends with what is on its way": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetStarting("db")
				s.SetWaiting("identity", "db")
				s.SetWaiting("front", "identity")
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: Deployment demo/shop-db waits for its pods to become ready", "See to db; identity goes on by itself.",
				"front [identity] Waiting: waits for identity", "front waits for identity: identity waits for db: Deployment demo/shop-db waits for its pods to become ready", "See to db; front goes on by itself.",
			},
			health: "Progressing",
		},
		"of two ways down, the one to what is broken": {
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
				"front [auth cart] Waiting: waits for auth, cart", "front waits for cart: cart waits for db: " + dbImageMissing, "See to db; front goes on by itself.",
				"auth [cache] Waiting: waits for cache", "auth waits for cache: Deployment demo/shop-cache waits for its pods to become ready", "See to cache; auth goes on by itself.",
				"cart [cache db] Waiting: waits for cache, db", "cart waits for db: " + dbImageMissing, "See to db; cart goes on by itself.",
			},
			health: "Degraded",
		},
		"both ways of a diamond lead to the same": {
			spec: diamondSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db", "cache")
				s.SetImageNotFound("db")
				s.SetWaiting("cart", "db")
				s.SetWaiting("front", "cart")
				s.Run("auth")
			},
			want: []string{
				"front [cart] Waiting: waits for cart", "front waits for cart: cart waits for db: " + dbImageMissing, "See to db; front goes on by itself.",
				"cart [db] Waiting: waits for db", "cart waits for db: " + dbImageMissing, "See to db; cart goes on by itself.",
			},
			health: "Degraded",
		},
		"its own pods are fine: only the change waits": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
				s.SetWaiting("identity", "db")
			},
			want:   []string{"identity [db] Waiting: its latest change waits for db", "identity waits for db: " + dbImageMissing, "See to db; identity goes on by itself."},
			health: "Degraded",
		},
		"what is broken of itself is said first": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
				s.SetCrashLoop("identity", 3, "")
				s.SetWaiting("identity", "db")
			},
			want: []string{"identity [db] Degraded: Container app of pod shop-identity-6d5f7c8b9-x0k4z crashes: it exited with code 3",
				"identity waits for db: " + dbImageMissing, "See to db; identity goes on by itself."},
			health: "Degraded",
		},
		"what is only worth knowing does not hide that it waits": {
			spec: strings.Replace(chainSpec, `"shop/identity:1"`, `"shop/identity:1", replicas: 0`, 1),
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
				s.SetWaiting("identity", "db")
				s.SetWaiting("front", "identity")
				fixtures.Get[*appsv1.Deployment](s, "shop-identity").Generation = 2
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: " + dbImageMissing, "See to db; identity goes on by itself.",
				"front [identity] Waiting: its latest change waits for identity", "front waits for identity: identity waits for db: " + dbImageMissing, "See to db; front goes on by itself.",
			},
			health: "Degraded",
		},
		"the operator has not noticed yet that it need not wait": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.Run("db")
				s.SetWaiting("identity", "db")
			},
			health: "Progressing",
		},
		"nobody waits for what the operator lets go on": {
			spec: chainSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.SetImageNotFound("db")
			},
			health: "Degraded",
		},
		"nobody waits for what runs on a schedule": {
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
			want:   []string{"front [db] Waiting: waits for db", "front waits for db: " + dbImageMissing, "See to db; front goes on by itself."},
			health: "Degraded",
		},
		"of what may not be read the operator's word counts": {
			spec: diamondSpec,
			change: func(s *fixtures.Fixture) {
				s.RunAll()
				s.ForbiddenKinds = []string{"Deployment"}
				s.SetComponentStatus("cache", "Healthy", "Reconciled", "")
				s.SetComponentStatus("db", "Degraded", "ComponentDegraded", dbImageMissing)
				s.SetWaiting("cart", "db")
			},
			want:   []string{"cart [db] Waiting: waits for db", "cart waits for db: Deployment shop-db was not looked at", "See to db; cart goes on by itself."},
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
				t.Errorf("who waits (-want +got):\n%s", diff)
			}
			if string(v.Health) != tc.health {
				t.Errorf("health of the whole: got %s, want %s", v.Health, tc.health)
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

// A job waits for its run before, too, which is no component.
func TestJobWaitsForPreviousRun(t *testing.T) {
	s := newShop()
	s.Remove("Job", jobName())
	s.SetReadyCondition("False", "WaitingForDependency", `Component "migrate": its run before, Job shop-migrate-1, has to end first`)
	s.SetComponentStatus("migrate", "Waiting", "WaitingForDependency", `Component "migrate": its run before, Job shop-migrate-1, has to end first`)
	v := inspect.Evaluate(s.Input())
	if c := v.Component("migrate"); c.Health != inspect.Waiting || c.Message != "its run before, Job shop-migrate-1, has to end first" {
		t.Errorf("got %s: %s", c.Health, c.Message)
	}
}
