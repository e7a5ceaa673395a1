package rollout

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// atMinute99 is a schedule that the CRD schema accepts and Kubernetes rejects.
func atMinute99(c *testSpec) { c.Job.Schedule = "99 3 * * *" }

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		spec []testSpec
		want string
	}{
		"nothing":                           {},
		"one component":                     {spec: stack(service("web", "1"))},
		"all types, diamond dependencies":   {spec: stack(service("web", "1", dependsOn("a", "b")), service("a", "1", dependsOn("db")), job("b", "1", dependsOn("db")), job("db", "1", nightly))},
		"binding to a component with ports": {spec: stack(service("web", "1", boundTo("db")), service("db", "1", withPort))},
		"names that only look alike":        {spec: stack(service("web", "1", withResourceName("a-b")), service("b", "1", withResourceName("a")))},
		"Job with the name of a Deployment": {spec: stack(service("web", "1"), job("migrate", "1", withResourceName("shop-web")))},
		"unknown dependency": {
			spec: stack(service("web", "1", dependsOn("db"))),
			want: `Component "web" depends on "db", which does not exist; correct the name, or add the component`,
		},
		"binding to an unknown component": {
			spec: stack(service("web", "1", boundTo("db"))),
			want: `Component "web" depends on "db", which does not exist; correct the name, or add the component`,
		},
		"binding to a component without ports": {
			spec: stack(service("web", "1", boundTo("db")), service("db", "1")),
			want: `Component "web" is bound to "db", which has no ports; add a port to it, or remove the binding`,
		},
		"binding to a job": {
			spec: stack(service("web", "1", boundTo("migrate")), job("migrate", "1")),
			want: `Component "web" is bound to "migrate", which has no ports; add a port to it, or remove the binding`,
		},
		"itself": {
			spec: stack(service("web", "1", dependsOn("web"))),
			want: "Components have a dependency cycle: web -> web; remove one of these dependencies",
		},
		"cycle with a component that leads into it": {
			spec: stack(service("in", "1", dependsOn("a")), service("a", "1", dependsOn("out", "b")), service("b", "1", dependsOn("c")), service("c", "1", dependsOn("a")), service("out", "1")),
			want: "Components have a dependency cycle: a -> b -> c -> a; remove one of these dependencies",
		},
		"cycle through a binding": {
			spec: stack(service("web", "1", withPort, boundTo("api")), service("api", "1", withPort, boundTo("web"))),
			want: "Components have a dependency cycle: web -> api -> web; remove one of these dependencies",
		},
		"cycle through a CronJob, which blocks no dependent but is deleted in order": {
			spec: stack(service("web", "1", dependsOn("report")), job("report", "1", nightly, dependsOn("web"))),
			want: "Components have a dependency cycle: web -> report -> web; remove one of these dependencies",
		},
		"invalid component alone": {
			spec: stack(job("report", "1", atMinute99)),
			want: `schedule "99 3 * * *" has "99" as the minute, which must be from 0 to 59; ` +
				`correct it, for example "0 3 * * *" for every day at 03:00`,
		},
		"invalid component among others": {
			spec: stack(service("web", "1"), job("report", "1", atMinute99)),
			want: `Component "report": schedule "99 3 * * *" has "99" as the minute, which must be from 0 to 59; ` +
				`correct it, for example "0 3 * * *" for every day at 03:00`,
		},
		"all problems at once": {
			spec: stack(service("web", "1", dependsOn("db")), job("report", "1", atMinute99), service("a", "1", dependsOn("b"), boundTo("none")), service("b", "1", dependsOn("a"))),
			want: `Component "report": schedule "99 3 * * *" has "99" as the minute, which must be from 0 to 59; ` +
				`correct it, for example "0 3 * * *" for every day at 03:00. ` +
				`Component "web" depends on "db", which does not exist; correct the name, or add the component. ` +
				`Component "a" depends on "none", which does not exist; correct the name, or add the component. ` +
				"Components have a dependency cycle: a -> b -> a; remove one of these dependencies",
		},
		"two components with the same children": {
			spec: stack(service("web", "1", withPort, withResourceName("front")), service("front", "1", withPort, withResourceName("front"))),
			want: `Components "web" and "front" would both create Deployment front; set a different resourceName on one of them`,
		},
		"two components with the same child": {
			spec: stack(service("web", "1", withResourceName("front")), service("front", "1", withResourceName("front"))),
			want: `Components "web" and "front" would both create Deployment front; set a different resourceName on one of them`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := Validate(desired.Build(shop, expand(tc.spec), desired.ClusterState{}))
			var got string
			var invalid *InvalidSpec
			if errors.As(err, &invalid) {
				got = invalid.Error()
			} else if err != nil {
				t.Fatalf("error of type %T, want *InvalidSpec", err)
			}
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestWaves(t *testing.T) {
	cases := map[string]struct {
		spec []testSpec
		want [][]string
	}{
		"nothing":                 {},
		"independent components":  {spec: stack(service("b", "1"), service("a", "1")), want: [][]string{{"b", "a"}}},
		"chain in reverse order":  {spec: stack(service("web", "1", dependsOn("api")), service("api", "1", dependsOn("db")), service("db", "1")), want: [][]string{{"db"}, {"api"}, {"web"}}},
		"diamond":                 {spec: stack(service("d", "1", dependsOn("b", "c")), service("b", "1", dependsOn("a")), service("c", "1", dependsOn("a")), service("a", "1")), want: [][]string{{"a"}, {"b", "c"}, {"d"}}},
		"short and long path":     {spec: stack(service("a", "1"), service("b", "1", dependsOn("a")), service("c", "1", dependsOn("a", "b")), service("x", "1")), want: [][]string{{"a", "x"}, {"b"}, {"c"}}},
		"binding is a dependency": {spec: stack(service("web", "1", boundTo("db")), service("db", "1", withPort)), want: [][]string{{"db"}, {"web"}}},
		"CronJob is listed":       {spec: stack(service("web", "1", dependsOn("report")), job("report", "1", nightly)), want: [][]string{{"report"}, {"web"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			for _, wave := range Waves(desired.Build(shop, expand(tc.spec), desired.ClusterState{})) {
				var names []string
				for _, c := range wave {
					names = append(names, c.Name)
				}
				got = append(got, names)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("waves (-want +got):\n%s", diff)
			}
		})
	}
}
