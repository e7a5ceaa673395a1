package rollout

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// atMinute99 is a schedule that the CRD schema accepts and Kubernetes rejects.
func atMinute99(c *appsapi.Component) { c.Job.Schedule = "99 3 * * *" }

func TestValidate(t *testing.T) {
	cases := map[string]struct {
		spec []appsapi.Component
		want string
	}{
		"nothing":                        {},
		"one":                            {spec: stack(service("web", "1"))},
		"all types, a diamond":           {spec: stack(service("web", "1", dependsOn("a", "b")), service("a", "1", dependsOn("db")), job("b", "1", dependsOn("db")), job("db", "1", nightly))},
		"a binding to what has a port":   {spec: stack(service("web", "1", boundTo("db")), service("db", "1", withPort))},
		"names that only look the same":  {spec: stack(service("web", "1", withResourceName("a-b")), service("b", "1", withResourceName("a")))},
		"a Job called like a Deployment": {spec: stack(service("web", "1"), job("migrate", "1", withResourceName("shop-web")))},
		"a dependency that does not exist": {
			spec: stack(service("web", "1", dependsOn("db"))),
			want: `Component "web" depends on "db", which does not exist; correct the name, or add it`,
		},
		"a binding to what does not exist": {
			spec: stack(service("web", "1", boundTo("db"))),
			want: `Component "web" depends on "db", which does not exist; correct the name, or add it`,
		},
		"a binding to what has no ports": {
			spec: stack(service("web", "1", boundTo("db")), service("db", "1")),
			want: `Component "web" is bound to "db", which has no ports; give it one, or remove the binding`,
		},
		"a binding to a job": {
			spec: stack(service("web", "1", boundTo("migrate")), job("migrate", "1")),
			want: `Component "web" is bound to "migrate", which has no ports; give it one, or remove the binding`,
		},
		"itself": {
			spec: stack(service("web", "1", dependsOn("web"))),
			want: "Components depend on each other in a circle: web -> web; remove one of these dependencies",
		},
		"a circle, with a way into it that is none": {
			spec: stack(service("in", "1", dependsOn("a")), service("a", "1", dependsOn("out", "b")), service("b", "1", dependsOn("c")), service("c", "1", dependsOn("a")), service("out", "1")),
			want: "Components depend on each other in a circle: a -> b -> c -> a; remove one of these dependencies",
		},
		"a circle through a binding": {
			spec: stack(service("web", "1", withPort, boundTo("api")), service("api", "1", withPort, boundTo("web"))),
			want: "Components depend on each other in a circle: web -> api -> web; remove one of these dependencies",
		},
		"a circle through a CronJob, which gates nobody but is deleted in order": {
			spec: stack(service("web", "1", dependsOn("report")), job("report", "1", nightly, dependsOn("web"))),
			want: "Components depend on each other in a circle: web -> report -> web; remove one of these dependencies",
		},
		"an invalid component alone": {
			spec: stack(job("report", "1", atMinute99)),
			want: `schedule "99 3 * * *" has "99" as the minute, which goes from 0 to 59; ` +
				`correct it, for example "0 3 * * *" for every night at three`,
		},
		"an invalid component among others": {
			spec: stack(service("web", "1"), job("report", "1", atMinute99)),
			want: `Component "report": schedule "99 3 * * *" has "99" as the minute, which goes from 0 to 59; ` +
				`correct it, for example "0 3 * * *" for every night at three`,
		},
		"two components with one child": {
			spec: stack(service("web", "1", withResourceName("front")), service("front", "1", withResourceName("front"))),
			want: `Components "web" and "front" would both have Deployment front; give one of them another resourceName`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := Validate(desired.Build(shop, tc.spec, desired.ClusterState{}))
			var got string
			var invalid *InvalidSpec
			if errors.As(err, &invalid) {
				got = invalid.Error()
			} else if err != nil {
				t.Fatalf("error of type %T, want *Invalid", err)
			}
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestWaves(t *testing.T) {
	cases := map[string]struct {
		spec []appsapi.Component
		want [][]string
	}{
		"nothing":             {},
		"side by side":        {spec: stack(service("b", "1"), service("a", "1")), want: [][]string{{"b", "a"}}},
		"a chain, backwards":  {spec: stack(service("web", "1", dependsOn("api")), service("api", "1", dependsOn("db")), service("db", "1")), want: [][]string{{"db"}, {"api"}, {"web"}}},
		"a diamond":           {spec: stack(service("d", "1", dependsOn("b", "c")), service("b", "1", dependsOn("a")), service("c", "1", dependsOn("a")), service("a", "1")), want: [][]string{{"a"}, {"b", "c"}, {"d"}}},
		"a short and a long":  {spec: stack(service("a", "1"), service("b", "1", dependsOn("a")), service("c", "1", dependsOn("a", "b")), service("x", "1")), want: [][]string{{"a", "x"}, {"b"}, {"c"}}},
		"a binding counts":    {spec: stack(service("web", "1", boundTo("db")), service("db", "1", withPort)), want: [][]string{{"db"}, {"web"}}},
		"a CronJob is listed": {spec: stack(service("web", "1", dependsOn("report")), job("report", "1", nightly)), want: [][]string{{"report"}, {"web"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			for _, wave := range Waves(desired.Build(shop, tc.spec, desired.ClusterState{})) {
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
