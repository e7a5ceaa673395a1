package edit

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// inProd names an application prod/shop.
func inProd(app appkind.Application) appkind.Application {
	app.SetNamespace("prod")
	app.SetName("shop")
	return app
}

const mixedSpec = `{components: [{name: migrate, job: {image: x}}, {name: db, stateful: {image: x, replicas: 1}}, {name: web, service: {image: x, update: {maxSurge: 2}}},
  {name: api, service: {image: x, autoscaling: {maxReplicas: 5}}}]}`

const manifestWins = " A manifest that sets replicas restores its own number when it is applied again; to keep this one, omit replicas there."

// withOperations returns a spec with operations and components.
func withOperations(operations string, components ...string) string {
	return "{operations: " + operations + ", " + strings.TrimPrefix(componentsSpec(components...), "{")
}

func TestEdits(t *testing.T) {
	at := time.Date(2026, 3, 4, 13, 0, 0, 0, time.FixedZone("", 3600))
	restart := func(app appkind.Application, spec map[string]any, component string) (string, error) {
		r, err := Restart(app, spec, component, at)
		return r.String(), err
	}
	suspend := func(to bool) func(appkind.Application, map[string]any, string) (string, error) {
		return func(app appkind.Application, spec map[string]any, component string) (string, error) {
			s, err := Suspend(app, spec, component, to)
			return s.Message(func(c string) string { return "resume <" + c + ">" }), err
		}
	}
	scale := func(to int32) func(appkind.Application, map[string]any, string) (string, error) {
		return func(app appkind.Application, spec map[string]any, component string) (string, error) {
			s, err := Scale(app, spec, component, to)
			return s.String(), err
		}
	}
	stack, service, cm := inProd(&appsapi.AppStack{}), inProd(&appsapi.AppService{}), inProd(&appsapi.CloudManager{})
	const product = `{db: {statefulSet: {image: x}}, identity: {deployment: {image: x, replicas: 2}}, front: {deployment: {image: x}}}`
	cases := map[string]struct {
		edit                     func(appkind.Application, map[string]any, string) (string, error)
		app                      appkind.Application
		spec, component          string
		want, message            string
		rejection, centerMessage string
	}{
		"restart one component": {restart, stack, componentsSpec(`{name: web, service: {image: x}}`, `{name: db, stateful: {image: x}}`), "web",
			withOperations(`[{component: web, restartRequestedAt: "2026-03-04T12:00:00Z"}]`, `{name: web, service: {image: x}}`, `{name: db, stateful: {image: x}}`),
			"AppStack prod/shop restarts: web.", "", ""},
		"restart again": {restart, stack, withOperations(`[{component: web, restartRequestedAt: before, replicas: 3}, {component: gone, suspend: true}]`, `{name: web, service: {image: x}}`), "web",
			withOperations(`[{component: web, restartRequestedAt: "2026-03-04T12:00:00Z", replicas: 3}]`, `{name: web, service: {image: x}}`),
			"AppStack prod/shop restarts: web.", "", ""},
		"restart a renamed component": {restart, stack, withOperations(`[{component: web, suspend: true}]`, `{name: site, renamedFrom: web, service: {image: x}}`), "site",
			withOperations(`[{component: site, restartRequestedAt: "2026-03-04T12:00:00Z", suspend: true}]`, `{name: site, renamedFrom: web, service: {image: x}}`),
			"AppStack prod/shop restarts: site.", "", ""},
		"restart all components except jobs": {restart, stack, componentsSpec(`{name: a, job: {image: x}}`, `{name: b, service: {image: x}}`), "",
			withOperations(`[{component: b, restartRequestedAt: "2026-03-04T12:00:00Z"}]`, `{name: a, job: {image: x}}`, `{name: b, service: {image: x}}`),
			"AppStack prod/shop restarts: b. Skipped: jobs are not restarted (a).", "", ""},
		"restart an AppService": {restart, service, `{image: x}`, "", `{image: x, operations: [{component: shop, restartRequestedAt: "2026-03-04T12:00:00Z"}]}`, "AppService prod/shop restarts.", "", ""},
		"restart a CloudManager": {restart, cm, product, "db", strings.Replace(product, "{db", `{operations: [{component: db, restartRequestedAt: "2026-03-04T12:00:00Z"}], db`, 1),
			"CloudManager prod/shop restarts: db.", "", ""},
		"restart a component of an AppService": {restart, service, `{image: x}`, "web", `{image: x}`, "",
			"AppService prod/shop has no components; omit --component", "AppService prod/shop has no components; omit the component"},
		"restart a removed component": {restart, stack, mixedSpec, "gone", mixedSpec, "",
			`AppStack prod/shop has no component "gone"; it has migrate, db, web, api`, ""},
		// The component was removed from the spec after it was read. The application must not be suspended instead.
		"suspend a removed component": {suspend(true), stack, mixedSpec, "gone", mixedSpec, "",
			`AppStack prod/shop has no component "gone"; it has migrate, db, web, api`, ""},
		"suspend an AppService": {suspend(true), service, `{image: x}`, "", `{image: x, suspend: true}`,
			"AppService prod/shop is suspended: it keeps running unchanged; drift is not corrected and updates are not applied. To resume: " +
				"resume <>", "", ""},
		"suspend a component": {suspend(true), stack, componentsSpec(`{name: web, service: {image: x}}`), "web",
			withOperations(`[{component: web, suspend: true}]`, `{name: web, service: {image: x}}`),
			`Component "web" of AppStack prod/shop is suspended: it keeps running unchanged; drift is not corrected and updates are not applied. To resume: resume <web>`, "", ""},
		"resume a component": {suspend(false), stack, withOperations(`[{component: web, suspend: true}]`, `{name: web, service: {image: x}}`), "web",
			componentsSpec(`{name: web, service: {image: x}}`),
			`Component "web" of AppStack prod/shop is no longer suspended: drift is corrected and pending changes are applied now.`, "", ""},
		"scale an AppService": {scale(3), service, `{image: x, replicas: 2}`, "", `{image: x, replicas: 3}`, "AppService prod/shop is scaled from 2 to 3 pods." + manifestWins, "", ""},
		"scale to zero": {scale(0), service, `{image: x}`, "", `{image: x, replicas: 0}`,
			"AppService prod/shop is scaled to 0 pods; replicas was not set before." + manifestWins, "", ""},
		"scale to the same": {scale(1), service, `{image: x, replicas: 1}`, "", `{image: x, replicas: 1}`,
			"AppService prod/shop already has 1 pod in its spec; nothing to do.", "", ""},
		"scale a component": {scale(3), stack, componentsSpec(`{name: a, service: {image: x, replicas: 1}}`, `{name: b, stateful: {image: x, replicas: 1}}`), "b",
			componentsSpec(`{name: a, service: {image: x, replicas: 1}}`, `{name: b, stateful: {image: x, replicas: 3}}`), `Component "b" of AppStack prod/shop is scaled from 1 to 3 pods.` + manifestWins, "", ""},
		"scale a component without replicas": {scale(3), stack, componentsSpec(`{name: a, service: {image: x}}`), "a",
			withOperations(`[{component: a, replicas: 3}]`, `{name: a, service: {image: x}}`), `Component "a" of AppStack prod/shop is scaled to 3 pods; replicas was not set before.`, "", ""},
		"scale a component again": {scale(2), stack, withOperations(`[{component: a, replicas: 3}]`, `{name: a, service: {image: x}}`), "a",
			withOperations(`[{component: a, replicas: 2}]`, `{name: a, service: {image: x}}`), `Component "a" of AppStack prod/shop is scaled from 3 to 2 pods.`, "", ""},
		"scale a component whose manifest sets replicas since": {scale(5), stack, withOperations(`[{component: a, replicas: 3}]`, `{name: a, service: {image: x, replicas: 1}}`), "a",
			componentsSpec(`{name: a, service: {image: x, replicas: 5}}`), `Component "a" of AppStack prod/shop is scaled from 1 to 5 pods.` + manifestWins, "", ""},
		"scale without a component": {scale(3), stack, mixedSpec, "", mixedSpec, "",
			"AppStack prod/shop has several components; choose one with --component: db or web or api",
			"AppStack prod/shop has several components; choose one: db or web or api"},
		"scale a job": {scale(3), stack, mixedSpec, "migrate", mixedSpec, "",
			`component "migrate" of AppStack prod/shop is a job and cannot be scaled; scale db or web or api`, ""},
		"scale a component with autoscaling": {scale(3), stack, mixedSpec, "api", mixedSpec, "",
			`Component "api" of AppStack prod/shop is scaled by its autoscaler, up to 5 pods; change minReplicas and maxReplicas of autoscaling, or remove autoscaling first: kubectl edit appstack shop -n prod`, ""},
		"scale to a negative number": {scale(-1), service, `{image: x}`, "", `{image: x}`, "",
			"AppService prod/shop cannot have -1 pods; use a number from 0 to 10000", ""},
		"scale a component of a CloudManager": {scale(1), cm, product, "identity",
			`{db: {statefulSet: {image: x}}, identity: {deployment: {image: x, replicas: 1}}, front: {deployment: {image: x}}}`,
			`Component "identity" of CloudManager prod/shop is scaled from 2 to 1 pod.` + manifestWins, "", ""},
		"scale a database": {scale(2), cm, product, "db", product, "",
			"the database of CloudManager prod/shop is a single server and cannot be scaled; scale identity or front", ""},
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
			refusal, ok := err.(*appkind.UserError) //nolint:errorlint // nothing wraps it
			if !ok || refusal.Error() != tc.rejection {
				t.Fatalf("got  %v\nwant %s", err, tc.rejection)
			}
			if want := tc.centerMessage; want != "" && refusal.NonCLIMessage() != want || want == "" && refusal.NonCLIMessage() != tc.rejection {
				t.Errorf("message outside of the CLI\n%s\nwant\n%s", refusal.NonCLIMessage(), want)
			}
		})
	}
}
