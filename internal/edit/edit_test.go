package edit

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// inProd is an application of the namespace prod.
func inProd(app application.Application) application.Application {
	app.SetNamespace("prod")
	app.SetName("shop")
	return app
}

const mixedSpec = `{components: [{name: migrate, job: {image: x}}, {name: db, stateful: {image: x, replicas: 1}}, {name: web, service: {image: x, update: {maxSurge: 2}}},
  {name: api, suspend: true, service: {image: x, autoscaling: {maxReplicas: 5}}}]}`

func TestEdits(t *testing.T) {
	at := time.Date(2026, 3, 4, 13, 0, 0, 0, time.FixedZone("", 3600))
	restart := func(app application.Application, spec map[string]any, component string) (string, error) {
		r, err := Restart(app, spec, component, at)
		return r.String(), err
	}
	suspend := func(to bool) func(application.Application, map[string]any, string) (string, error) {
		return func(app application.Application, spec map[string]any, component string) (string, error) {
			s, err := Suspend(app, spec, component, to)
			return s.Message(func(c string) string { return "resume <" + c + ">" }), err
		}
	}
	scale := func(to int32) func(application.Application, map[string]any, string) (string, error) {
		return func(app application.Application, spec map[string]any, component string) (string, error) {
			s, err := Scale(app, spec, component, to)
			return s.String(), err
		}
	}
	stack, service, cm := inProd(&appsapi.AppStack{}), inProd(&appsapi.AppService{}), inProd(&appsapi.CloudManager{})
	const product = `{db: {statefulSet: {image: x}}, identity: {deployment: {image: x, replicas: 2}}, front: {deployment: {image: x}}}`
	cases := map[string]struct {
		edit                     func(application.Application, map[string]any, string) (string, error)
		app                      application.Application
		spec, component          string
		want, message            string
		rejection, centerMessage string
	}{
		"restart one": {restart, stack, componentsSpec(`{name: web, service: {image: x, update: {maxSurge: 2}}}`, `{name: db, stateful: {image: x}}`), "web",
			componentsSpec(`{name: web, service: {image: x, update: {maxSurge: 2, restartedAt: "2026-03-04T12:00:00Z"}}}`, `{name: db, stateful: {image: x}}`),
			"AppStack prod/shop restarts: web.", "", ""},
		"restart all, not the jobs": {restart, stack, componentsSpec(`{name: a, job: {image: x}}`, `{name: b, service: {image: x}}`), "",
			componentsSpec(`{name: a, job: {image: x}}`, `{name: b, service: {image: x, update: {restartedAt: "2026-03-04T12:00:00Z"}}}`),
			"AppStack prod/shop restarts: b. Left out: jobs do not run again (a).", "", ""},
		"restart an AppService": {restart, service, `{image: x}`, "", `{image: x, update: {restartedAt: "2026-03-04T12:00:00Z"}}`, "AppService prod/shop restarts.", "", ""},
		"restart what an AppService has not": {restart, service, `{image: x}`, "web", `{image: x}`, "",
			"AppService prod/shop has no components; leave --component out", "AppService prod/shop has no components; leave the component out"},
		"restart one that went meanwhile": {restart, stack, mixedSpec, "gone", mixedSpec, "", `AppStack prod/shop has no component "gone"; it has migrate, db, web, api`, ""},
		// It was read a moment ago, so it may be gone from the spec. The whole must not be suspended instead.
		"suspend one that went meanwhile": {suspend(true), stack, mixedSpec, "gone", mixedSpec, "", `AppStack prod/shop has no component "gone"; it has migrate, db, web, api`, ""},
		"suspend": {suspend(true), service, `{image: x}`, "", `{image: x, suspend: true}`,
			"AppService prod/shop is suspended: what runs keeps running; nothing is repaired or updated. To go on: resume <>", "", ""},
		"resume one": {suspend(false), stack, componentsSpec(`{name: web, suspend: true, service: {image: x}}`), "web", componentsSpec(`{name: web, service: {image: x}}`),
			`Component "web" of AppStack prod/shop is no longer suspended: what changed meanwhile is repaired and applied now.`, "", ""},
		"scale an AppService": {scale(3), service, `{image: x, replicas: 2}`, "", `{image: x, replicas: 3}`, "AppService prod/shop is scaled from 2 to 3 pods.", "", ""},
		"scale to nothing":    {scale(0), service, `{image: x}`, "", `{image: x, replicas: 0}`, "AppService prod/shop is scaled to 0 pods; its spec left the number alone before.", "", ""},
		"scale to the same":   {scale(1), service, `{image: x, replicas: 1}`, "", `{image: x, replicas: 1}`, "AppService prod/shop has 1 pod in its spec already; nothing to do.", "", ""},
		"scale a component": {scale(3), stack, componentsSpec(`{name: a, service: {image: x, replicas: 1}}`, `{name: b, stateful: {image: x, replicas: 1}}`), "b",
			componentsSpec(`{name: a, service: {image: x, replicas: 1}}`, `{name: b, stateful: {image: x, replicas: 3}}`), `Component "b" of AppStack prod/shop is scaled from 1 to 3 pods.`, "", ""},
		"scale which one": {scale(3), stack, mixedSpec, "", mixedSpec, "", "AppStack prod/shop has several components, and each its own number of pods; say which one with --component: db or web or api",
			"AppStack prod/shop has several components, and each its own number of pods; say which component: db or web or api"},
		"scale a job": {scale(3), stack, mixedSpec, "migrate", mixedSpec, "", `component "migrate" of AppStack prod/shop is a job, which runs once and has no number of pods; scale db or web or api`, ""},
		"scale against an autoscaler": {scale(3), stack, mixedSpec, "api", mixedSpec, "",
			`Component "api" of AppStack prod/shop is scaled by its autoscaling, up to 5 pods; change minReplicas and maxReplicas there, or remove it first: kubectl edit appstack shop -n prod`, ""},
		"scale to less than nothing": {scale(-1), service, `{image: x}`, "", `{image: x}`, "", "AppService prod/shop cannot have -1 pods; use a number from 0 to 10000", ""},
		"scale a part": {scale(1), cm, product, "identity", `{db: {statefulSet: {image: x}}, identity: {deployment: {image: x, replicas: 1}}, front: {deployment: {image: x}}}`,
			`Component "identity" of CloudManager prod/shop is scaled from 2 to 1 pod.`, "", ""},
		"scale a database": {scale(2), cm, product, "db", product, "", "the database of CloudManager prod/shop is one server and cannot be scaled; scale identity or front", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := mustParse(t, tc.spec)
			message, err := tc.edit(tc.app, spec, tc.component)
			if diff := cmp.Diff(mustParse(t, tc.want), spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			if tc.rejection == "" {
				if err != nil || message != tc.message {
					t.Errorf("got  %s, %v\nwant %s", message, err, tc.message)
				}
				return
			}
			refusal, ok := err.(*application.UserError) //nolint:errorlint // nothing wraps it
			if !ok || refusal.Error() != tc.rejection {
				t.Fatalf("got  %v\nwant %s", err, tc.rejection)
			}
			if want := tc.centerMessage; want != "" && refusal.NonCLIMessage() != want || want == "" && refusal.NonCLIMessage() != tc.rejection {
				t.Errorf("elsewhere\n%s\nwant\n%s", refusal.NonCLIMessage(), want)
			}
		})
	}
}
