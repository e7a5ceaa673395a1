package bench

import (
	"strings"
	"testing"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// templates are the bodies of the writes that the operator made for one AppService.
type templates struct {
	app                 *appsapi.AppService
	deployment, service string
	status, events      [2]string // the first and the last
}

// bodiesFor are the same for another AppService.
func (t *templates) bodiesFor(app *appsapi.AppService) *templates {
	same := strings.NewReplacer(t.app.Namespace, app.Namespace, t.app.Name, app.Name, string(t.app.UID), string(app.UID))
	return &templates{
		app: app, deployment: same.Replace(t.deployment), service: same.Replace(t.service),
		status: [2]string{same.Replace(t.status[0]), same.Replace(t.status[1])},
		events: [2]string{same.Replace(t.events[0]), same.Replace(t.events[1])},
	}
}

// bodiesOf finds what the operator sent for one AppService.
func bodiesOf(t *testing.T, app *appsapi.AppService, requests audit.Events) *templates {
	of := func(resource string) []string {
		var bodies []string
		for _, e := range requests.Writes().Of(resource).In(app.Namespace) {
			if e.ObjectRef.Name == app.Name || strings.HasPrefix(e.ObjectRef.Name, app.Name+".") { // events are named after it
				bodies = append(bodies, string(e.RequestObject))
			}
		}
		return bodies
	}
	deployments, services := of("deployments.apps"), of("services")
	status, events := of("appservices.apps.holdfast.dev/status"), of("events.events.k8s.io")
	if len(deployments) != 1 || len(services) != 1 || len(status) < 2 || len(events) < 2 {
		t.Fatalf("%s took %d, %d, %d and %d writes of Deployment, Service, status and events",
			app.Name, len(deployments), len(services), len(status), len(events))
	}
	return &templates{
		app: app, deployment: deployments[0], service: services[0],
		status: [2]string{status[0], status[len(status)-1]}, events: [2]string{events[0], events[len(events)-1]},
	}
}

// operatorBodies lets the operator make a few, and keeps what it sent for the first.
func operatorBodies(t *testing.T) *templates {
	events, first := countRequests(t, ours(), 10)
	return bodiesOf(t, first.(*appsapi.AppService), events) //nolint:forcetypeassert // ours are
}
