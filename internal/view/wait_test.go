package view_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/testutil/scene"
	"github.com/holdfast-dev/holdfast/internal/view"
)

const (
	chain = `
components:
- {name: db, service: {image: "shop/db:1"}}
- {name: identity, dependsOn: [db], service: {image: "shop/identity:1"}}
- {name: front, dependsOn: [identity], service: {image: "shop/front:1"}}`
	// diamond has two ways from front to db, and one to a cache that nothing is wrong with.
	diamond = `
components:
- {name: front, dependsOn: [auth, cart], service: {image: "shop/front:1"}}
- {name: auth, dependsOn: [cache], service: {image: "shop/auth:1"}}
- {name: cart, dependsOn: [db, cache], service: {image: "shop/cart:1"}}
- {name: cache, service: {image: "shop/cache:1"}}
- {name: db, service: {image: "shop/db:1"}}`
	noImage = `Image "shop/db:1" does not exist in its registry (container app of pod shop-db-6d5f7c8b9-x0k4z)`
)

func TestWait(t *testing.T) {
	tests := map[string]struct {
		spec  string
		play  func(*scene.Scene)
		want  []string // components that wait: for whom, what they say, their cause and its fix
		whole string
	}{
		"a chain of three ends with what is broken": {
			spec: chain,
			play: func(s *scene.Scene) {
				s.Runs("db")
				s.LacksImage("db")
				s.Waits("identity", "db")
				s.Waits("front", "identity")
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: " + noImage, "See to db; identity goes on by itself.",
				"front [identity] Waiting: waits for identity", "front waits for identity: identity waits for db: " + noImage, "See to db; front goes on by itself.",
			},
			whole: "Degraded",
		},
		"a chain of three ends with what is on its way": {
			spec: chain,
			play: func(s *scene.Scene) {
				s.Runs("db")
				s.Starts("db")
				s.Waits("identity", "db")
				s.Waits("front", "identity")
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: Deployment demo/shop-db waits for its pods to become ready", "See to db; identity goes on by itself.",
				"front [identity] Waiting: waits for identity", "front waits for identity: identity waits for db: Deployment demo/shop-db waits for its pods to become ready", "See to db; front goes on by itself.",
			},
			whole: "Progressing",
		},
		"of two ways down, the one to what is broken": {
			spec: diamond,
			play: func(s *scene.Scene) {
				s.Runs("db", "cache")
				s.LacksImage("db")
				s.Starts("cache")
				s.Waits("cart", "db")
				s.Waits("auth", "cache")
				s.Waits("front", "auth")
			},
			want: []string{
				"front [auth cart] Waiting: waits for auth, cart", "front waits for cart: cart waits for db: " + noImage, "See to db; front goes on by itself.",
				"auth [cache] Waiting: waits for cache", "auth waits for cache: Deployment demo/shop-cache waits for its pods to become ready", "See to cache; auth goes on by itself.",
				"cart [cache db] Waiting: waits for cache, db", "cart waits for db: " + noImage, "See to db; cart goes on by itself.",
			},
			whole: "Degraded",
		},
		"both ways of a diamond lead to the same": {
			spec: diamond,
			play: func(s *scene.Scene) {
				s.Runs("db", "cache")
				s.LacksImage("db")
				s.Waits("cart", "db")
				s.Waits("front", "cart")
				s.Runs("auth")
			},
			want: []string{
				"front [cart] Waiting: waits for cart", "front waits for cart: cart waits for db: " + noImage, "See to db; front goes on by itself.",
				"cart [db] Waiting: waits for db", "cart waits for db: " + noImage, "See to db; cart goes on by itself.",
			},
			whole: "Degraded",
		},
		"its own pods are fine: only the change waits": {
			spec: chain,
			play: func(s *scene.Scene) {
				s.RunAll()
				s.LacksImage("db")
				s.Waits("identity", "db")
			},
			want:  []string{"identity [db] Waiting: its latest change waits for db", "identity waits for db: " + noImage, "See to db; identity goes on by itself."},
			whole: "Degraded",
		},
		"what is broken of itself is said first": {
			spec: chain,
			play: func(s *scene.Scene) {
				s.RunAll()
				s.LacksImage("db")
				s.Crashes("identity", 3, "")
				s.Waits("identity", "db")
			},
			want: []string{"identity [db] Degraded: Container app of pod shop-identity-6d5f7c8b9-x0k4z crashes: it exited with code 3",
				"identity waits for db: " + noImage, "See to db; identity goes on by itself."},
			whole: "Degraded",
		},
		"what is only worth knowing does not hide that it waits": {
			spec: strings.Replace(chain, `"shop/identity:1"`, `"shop/identity:1", replicas: 0`, 1),
			play: func(s *scene.Scene) {
				s.RunAll()
				s.LacksImage("db")
				s.Waits("identity", "db")
				s.Waits("front", "identity")
				scene.Get[*appsv1.Deployment](s, "shop-identity").Generation = 2
			},
			want: []string{
				"identity [db] Waiting: waits for db", "identity waits for db: " + noImage, "See to db; identity goes on by itself.",
				"front [identity] Waiting: its latest change waits for identity", "front waits for identity: identity waits for db: " + noImage, "See to db; front goes on by itself.",
			},
			whole: "Degraded",
		},
		"the operator has not noticed yet that it need not wait": {
			spec: chain,
			play: func(s *scene.Scene) {
				s.Runs("db")
				s.Waits("identity", "db")
			},
			whole: "Progressing",
		},
		"nobody waits for what the operator lets go on": {
			spec: chain,
			play: func(s *scene.Scene) {
				s.RunAll()
				s.LacksImage("db")
			},
			whole: "Degraded",
		},
		"nobody waits for what runs on a schedule": {
			spec: `
components:
- {name: nightly, job: {image: "shop/nightly:1", schedule: "0 3 * * *"}}
- {name: db, service: {image: "shop/db:1"}}
- {name: front, dependsOn: [db, nightly], service: {image: "shop/front:1"}}`,
			play: func(s *scene.Scene) {
				s.Runs("db")
				s.LacksImage("db")
				s.Waits("front", "db")
			},
			want:  []string{"front [db] Waiting: waits for db", "front waits for db: " + noImage, "See to db; front goes on by itself."},
			whole: "Degraded",
		},
		"of what may not be read the operator's word counts": {
			spec: diamond,
			play: func(s *scene.Scene) {
				s.RunAll()
				s.Unread = []string{"Deployment"}
				s.SaysOf("cache", "Healthy", "Reconciled", "")
				s.SaysOf("db", "Degraded", "ComponentDegraded", noImage)
				s.Waits("cart", "db")
			},
			want:  []string{"cart [db] Waiting: waits for db", "cart waits for db: Deployment shop-db was not looked at", "See to db; cart goes on by itself."},
			whole: "Unknown",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := scene.New("appstack", "shop", tc.spec)
			s.Says("False", "WaitingForDependency", "Something waits")
			tc.play(s)
			v := view.Of(s.Input())
			if diff := cmp.Diff(tc.want, waits(v)); diff != "" {
				t.Errorf("who waits (-want +got):\n%s", diff)
			}
			if string(v.Health) != tc.whole {
				t.Errorf("health of the whole: got %s, want %s", v.Health, tc.whole)
			}
		})
	}
}

func waits(v view.View) []string {
	var out []string
	for _, c := range v.Components {
		if len(c.WaitsFor) == 0 {
			continue
		}
		out = append(out, c.Name+" ["+strings.Join(c.WaitsFor, " ")+"] "+string(c.Health)+": "+c.Message)
		for _, x := range c.Causes {
			if x.Code == explain.DependencyWait {
				out = append(out, x.Sentence, x.Fix)
			}
		}
	}
	return out
}

// A job waits for its run before, too, which is no component.
func TestWaitForARun(t *testing.T) {
	s := newShop()
	s.Remove("Job", jobName())
	s.Says("False", "WaitingForDependency", `Component "migrate": its run before, Job shop-migrate-1, has to end first`)
	s.SaysOf("migrate", "Waiting", "WaitingForDependency", `Component "migrate": its run before, Job shop-migrate-1, has to end first`)
	v := view.Of(s.Input())
	if c := v.Component("migrate"); c.Health != view.Waiting || c.Message != "its run before, Job shop-migrate-1, has to end first" {
		t.Errorf("got %s: %s", c.Health, c.Message)
	}
}
