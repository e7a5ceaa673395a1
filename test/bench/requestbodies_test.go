package bench

import (
	"strings"
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// requestBodies are the bodies of the operator's writes for one AppService.
type requestBodies struct {
	app                 *appsapi.AppService
	deployment, service string
	status, events      [2]string // the first and the last
}

// forApp returns the same bodies for another AppService.
func (t *requestBodies) forApp(app *appsapi.AppService) *requestBodies {
	replacer := strings.NewReplacer(t.app.Namespace, app.Namespace, t.app.Name, app.Name, string(t.app.UID), string(app.UID))
	return &requestBodies{
		app: app, deployment: replacer.Replace(t.deployment), service: replacer.Replace(t.service),
		status: [2]string{replacer.Replace(t.status[0]), replacer.Replace(t.status[1])},
		events: [2]string{replacer.Replace(t.events[0]), replacer.Replace(t.events[1])},
	}
}

// extractBodies returns what the operator sent for one AppService.
func extractBodies(t *testing.T, app *appsapi.AppService, requests audit.Events) *requestBodies {
	collect := func(resource string) []string {
		var bodies []string
		for _, e := range requests.Writes().Of(resource).In(app.Namespace) {
			if e.ObjectRef.Name == app.Name || strings.HasPrefix(e.ObjectRef.Name, app.Name+".") { // events are named after it
				bodies = append(bodies, string(e.RequestObject))
			}
		}
		return bodies
	}
	deployments, services := collect("deployments.apps"), collect("services")
	status, events := collect("appservices.apps.holdfast.dev/status"), collect("events.events.k8s.io")
	if len(deployments) != 1 || len(services) != 1 || len(status) < 2 || len(events) < 2 {
		t.Fatalf("%s: got %d, %d, %d and %d writes of Deployment, Service, status and events",
			app.Name, len(deployments), len(services), len(status), len(events))
	}
	return &requestBodies{
		app: app, deployment: deployments[0], service: services[0],
		status: [2]string{status[0], status[len(status)-1]}, events: [2]string{events[0], events[len(events)-1]},
	}
}

// recordOperatorBodies runs the operator with a few applications and returns the bodies for the first one.
func recordOperatorBodies(t *testing.T) *requestBodies {
	events, first := countRequests(t, holdfastContender(), 10)
	return extractBodies(t, first.(*appsapi.AppService), events) //nolint:forcetypeassert // ours are
}
