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

func TestDown(t *testing.T) {
	db, api, web := service("db", "1", ports), service("api", "1", needing("db")), service("web", "1", needing("api"))
	disabled := noted[*appsv1.Deployment]("apps.holdfast.dev/prune", "disabled")
	cases := map[string]struct {
		lives []appsapi.Component
		deeds []deed
		want  []string
	}{
		"nothing is left":                     {want: []string{"done"}},
		"what nobody needs goes first":        {lives: stack(db, api, web), want: []string{"delete Deployment shop-web of web"}},
		"then the next":                       {lives: stack(db, api), want: []string{"delete Deployment shop-api of api"}},
		"at last what all needed":             {lives: stack(db), want: []string{"delete Deployment shop-db of db"}},
		"its Service when its pods are gone":  {lives: stack(db), deeds: []deed{gone("Deployment", "shop-db")}, want: []string{"delete Service shop-db of db"}},
		"side by side":                        {lives: stack(service("db", "1"), service("cache", "1")), want: []string{"delete Deployment shop-cache of cache", "delete Deployment shop-db of db"}},
		"what was needed before, also counts": {lives: stack(service("db", "1"), service("web", "1")), deeds: []deed{to("shop-web", noted[*appsv1.Deployment]("apps.holdfast.dev/depended-on", "db"))}, want: []string{"delete Deployment shop-web of web"}},
		"the order waits for what is on its way out, and says why": {
			lives: stack(db, web, service("api", "1")), deeds: []deed{to("shop-web", noted[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "db")), to("shop-web", leaves[*appsv1.Deployment]("example.com/a", "foregroundDeletion"))},
			want: []string{"delete Deployment shop-api of api", "wait for web: Deployment shop/shop-web is being deleted since 2026-01-02T12:00:00Z and waits for the finalizers example.com/a"},
		},
		"pods are waited for, too": {
			lives: stack(service("db", "1"), service("web", "1", needing("db"))), deeds: []deed{to("shop-web", leaves[*appsv1.Deployment]("foregroundDeletion"))},
			want: []string{"wait for web: Deployment shop/shop-web is being deleted since 2026-01-02T12:00:00Z and waits for its pods to end"},
		},
		"what others need is not reported before its turn": {
			lives: stack(service("db", "1"), service("web", "1", needing("db"))), deeds: []deed{to("shop-db", leaves[*appsv1.Deployment]("example.com/a"))},
			want: []string{"delete Deployment shop-web of web"},
		},
		"a circle goes all at once": {
			lives: stack(service("a", "1", needing("b")), service("b", "1", needing("a"))),
			want:  []string{"delete Deployment shop-a of a", "delete Deployment shop-b of b"},
		},
		"first what is free beside a circle": {
			lives: stack(service("a", "1", needing("b")), service("b", "1", needing("a")), service("web", "1", needing("a"))),
			want:  []string{"delete Deployment shop-web of web"},
		},
		"what names itself waits for nobody": {
			lives: stack(service("a", "1")), deeds: []deed{to("shop-a", noted[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "a"))},
			want: []string{"delete Deployment shop-a of a"},
		},
		"what names nothing that lives waits for nobody": {
			lives: stack(service("db", "1")), deeds: []deed{to("shop-db", noted[*appsv1.Deployment]("apps.holdfast.dev/depends-on", "gone"))},
			want: []string{"delete Deployment shop-db of db"},
		},
		"a job goes in its turn": {
			lives: stack(job("migrate", "1", needing("db")), service("db", "1")),
			want:  []string{"delete Job migrate:1 of migrate"},
		},
		"kept on purpose":           {lives: stack(service("db", "1")), deeds: []deed{to("shop-db", disabled)}, want: []string{"done"}},
		"what is kept needs nobody": {lives: stack(service("db", "1"), service("web", "1", needing("db"))), deeds: []deed{to("shop-web", disabled)}, want: []string{"delete Deployment shop-db of db"}},
		"somebody else's":           {lives: stack(db), deeds: []deed{to("shop-db", theirs[*appsv1.Deployment]), to("shop-db", theirs[*corev1.Service])}, want: []string{"done"}},
		"nobody's: it was orphaned": {lives: stack(service("db", "1")), deeds: []deed{to("shop-db", nobodys[*appsv1.Deployment])}, want: []string{"done"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := lives(tc.lives...)
			for _, d := range tc.deeds {
				d(seen)
			}
			if diff := cmp.Diff(tc.want, downLines(Down(shop, seen))); diff != "" {
				t.Errorf("teardown (-want +got):\n%s", diff)
			}
		})
	}
}

func downLines(d Teardown) []string {
	var out []string
	for _, r := range d.Delete {
		out = append(out, fmt.Sprintf("delete %s of %s", nameOf(r.Child), r.Component))
	}
	for _, k := range d.Waits {
		out = append(out, fmt.Sprintf("wait for %s: %s", k.Component, k.Why))
	}
	if d.Done {
		out = append(out, "done")
	}
	return out
}

func TestOrdered(t *testing.T) {
	cases := map[string]struct {
		spec  []appsapi.Component
		lives []appsapi.Component
		deeds []deed
		want  bool
	}{
		"nothing needs anything":      {spec: stack(service("a", "1"), service("b", "1")), lives: stack(service("a", "1"), service("b", "1", ports))},
		"the spec has a dependency":   {spec: stack(service("a", "1", needing("b")), service("b", "1")), want: true},
		"the spec has a binding":      {spec: stack(service("a", "1", boundTo("b")), service("b", "1", ports)), want: true},
		"what lives has a dependency": {spec: stack(service("a", "1"), service("b", "1")), lives: stack(service("a", "1", needing("b")), service("b", "1")), want: true},
		"pods on their way out have one": {
			spec: stack(service("a", "1")), lives: stack(service("a", "1"), service("b", "1")),
			deeds: []deed{to("shop-a", noted[*appsv1.Deployment]("apps.holdfast.dev/depended-on", "b"))}, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			seen := lives(tc.lives...)
			for _, d := range tc.deeds {
				d(seen)
			}
			if got := Ordered(desired.For(shop, tc.spec, desired.Known{}), seen); got != tc.want {
				t.Errorf("ordered: %t, want %t", got, tc.want)
			}
		})
	}
}
