package desired

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// restartedComponents returns a service and a stateful component whose restart was requested; "" means that it was not.
func restartedComponents(t *testing.T, restart string) []ExpandedComponent {
	t.Helper()
	out := components(t, `[{name: web, service: {image: a}}, {name: db, stateful: {image: a, storage: [{name: data, mountPath: /d, size: 1Gi}]}}]`)
	var o appsapi.Operations
	if restart != "" {
		for _, c := range out {
			o.EditOperations(c.Name, func(c *appsapi.ComponentOperations) { c.RestartRequestedAt = restart })
		}
	}
	return SetOperations(out, &o)
}

func TestRestartRequestReplacesPods(t *testing.T) {
	for i, live := range []runtime.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}} {
		render := func(restart string, live runtime.Object) *Config {
			config, err := Build(stack, restartedComponents(t, restart), ClusterState{})[i].Children[0].Render(live)
			must(err)
			return config
		}
		body, err := render("monday", nil).Patch("", "1")
		must(err)
		must(json.Unmarshal(body, live))
		for restart, want := range map[string]bool{"monday": false, "tuesday": true, "": false} {
			if got := render(restart, live).ReplacesPods(live.(metav1.Object)); got != want {
				t.Errorf("%T restarted on monday, then request %q: replaces pods: %t, want %t", live, restart, got, want)
			}
		}
		never, err := render("", nil).Patch("", "1")
		must(err)
		var o struct {
			Spec struct {
				Template struct {
					Metadata struct{ Annotations map[string]string }
				}
			}
		}
		must(json.Unmarshal(never, &o))
		if _, ok := o.Spec.Template.Metadata.Annotations[stack.Keys.RestartedAt]; ok {
			t.Errorf("%T has a restart that was not requested", live)
		}
	}
}

func TestOperationsOfComponents(t *testing.T) {
	const spec = `
- {name: web, service: {image: a}}
- {name: set, service: {image: a, replicas: 2}}
- {name: auto, service: {image: a, autoscaling: {maxReplicas: 3}}}
- {name: data, stateful: {image: a, storage: [{name: data, mountPath: /d, size: 1Gi}]}}
- {name: db, database: {version: "11.8", storage: {size: 1Gi}}}
- {name: site, renamedFrom: page, service: {image: a}}
- {name: other, renamedFrom: web2, service: {image: a}}
- {name: migrate, job: {image: a}}`
	five := int32(5)
	o := appsapi.Operations{Operations: []appsapi.ComponentOperations{
		{Component: "web", Replicas: &five}, {Component: "set", Replicas: &five}, {Component: "auto", Replicas: &five},
		{Component: "data", Replicas: &five}, {Component: "db", Replicas: &five, RotationRequestedAt: "now"},
		{Component: "page", Suspend: true}, {Component: "web2", Suspend: true}, {Component: "other"},
		{Component: "migrate", Replicas: &five, RestartRequestedAt: "now"}, {Component: "gone", Suspend: true},
	}}
	declared := components(t, spec)
	for _, c := range Build(stack, SetOperations(declared, &o), ClusterState{}) {
		replicas := int32(0)
		for i := range declared {
			if s := longRunningSpec(declared[i]); declared[i].Name == c.Name && s != nil && s.Replicas != nil {
				replicas = *s.Replicas
			}
		}
		want := map[string]int32{"web": 5, "set": 2, "data": 5, "db": 1}[c.Name]
		if replicas != want {
			t.Errorf("%s has %d replicas, want %d", c.Name, replicas, want)
		}
		if want := c.Name == "site"; c.Suspended != want {
			t.Errorf("%s is suspended: %t, want %t", c.Name, c.Suspended, want)
		}
		if c.Database != nil && c.Database.RotationRequestedAt != "now" {
			t.Errorf("the rotation of %s was not requested", c.Name)
		}
	}
	o.Suspend = true
	for _, c := range Build(stack, SetOperations(declared, &o), ClusterState{}) {
		if !c.Suspended {
			t.Errorf("%s of a suspended application is not suspended", c.Name)
		}
	}
}

// SetOperations must not change the components of the application, which a cache shares.
func TestSetOperationsKeepsSpec(t *testing.T) {
	service := &appsapi.ServiceComponent{}
	five := int32(5)
	o := appsapi.Operations{Operations: []appsapi.ComponentOperations{{Component: "web", Replicas: &five}}}
	SetOperations(ExpandComponents([]appsapi.Component{{Name: "web", Service: service}}), &o)
	if service.Replicas != nil {
		t.Error("the spec was changed")
	}
}
