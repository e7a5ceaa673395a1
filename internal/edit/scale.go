package edit

import (
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// maxReplicas is what the API takes.
const maxReplicas = 10000

// Scaled is what became of the number of pods.
type Scaled struct {
	app application.Application
	// Component is empty for an AppService, which is one itself.
	Component string
	// Before is nil when the spec left the number alone.
	Before *int64
	After  int64
	// Suspended says that nothing happens before it is resumed.
	Suspended bool
}

// Changed says whether the number is another one.
func (s Scaled) Changed() bool { return s.Before == nil || *s.Before != s.After }

// Scale sets how many pods of an AppService run, or of a component, and nothing else.
func Scale(app application.Application, spec map[string]any, component string, replicas int32) (Scaled, error) {
	s := Scaled{app: app, Component: component, After: int64(replicas)}
	if replicas < 0 || replicas > maxReplicas {
		return s, application.Refuse("%s cannot have %d pods; use a number from 0 to %d", what(app, component), replicas, maxReplicas)
	}
	at, err := scalable(app, spec, component)
	if err != nil {
		return s, err
	}
	if auto, ok := at["autoscaling"].(map[string]any); ok {
		return s, application.Refuse("%s is scaled by its autoscaling, up to %v pods; change minReplicas and maxReplicas there, or remove it first: kubectl edit %s %s -n %s",
			what(app, component), auto["maxReplicas"], strings.ToLower(application.KindOf(app)), app.GetName(), app.GetNamespace())
	}
	if before, ok := at["replicas"].(int64); ok {
		s.Before = &before
	}
	at["replicas"] = s.After
	s.Suspended = isSuspended(spec, find(entries(spec, "components"), "name", component))
	return s, nil
}

// scalable is the part of a spec that has the number of pods.
func scalable(app application.Application, spec map[string]any, component string) (map[string]any, error) {
	switch app.(type) {
	case *appsapi.AppService:
		return spec, checkComponent(app, spec, component)
	case *appsapi.CloudManager:
		return partOf(app, spec, component)
	}
	var some []string
	for _, c := range componentSpecs(spec) {
		if server(c) != nil && c["database"] == nil {
			some = append(some, name(c))
		}
	}
	if component == "" {
		return nil, whichOne(app, some)
	}
	if err := checkComponent(app, spec, component); err != nil {
		return nil, err
	}
	c := find(entries(spec, "components"), "name", component)
	if c["database"] != nil {
		return nil, oneServer(app, some)
	}
	s := server(c)
	if s == nil {
		return nil, application.Refuse("component %q of %s is a job, which runs once and has no number of pods; scale %s", component, application.Title(app), orNothing(some))
	}
	return s, nil
}

// partOf is the service of a CloudManager. Its database is one server: two on the same data would
// destroy it.
func partOf(app application.Application, spec map[string]any, part string) (map[string]any, error) {
	parts := []string{"identity", "front"}
	switch part {
	case "":
		return nil, whichOne(app, parts)
	case "db":
		return nil, oneServer(app, parts)
	case "identity", "front":
		if service, ok := spec[part].(map[string]any); ok {
			if deployment, ok := service["deployment"].(map[string]any); ok {
				return deployment, nil
			}
		}
	}
	return nil, noComponent(app, part, append([]string{"db"}, parts...))
}

func oneServer(app application.Application, others []string) error {
	return application.Refuse("the database of %s is one server and cannot be scaled; scale %s", application.Title(app), orNothing(others))
}

func whichOne(app application.Application, names []string) error {
	return application.Refuse("%s has several components, and each its own number of pods; say which one with --component: %s", application.Title(app), orNothing(names)).
		OrElsewhere("%s has several components, and each its own number of pods; say which component: %s", application.Title(app), orNothing(names))
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing: it has only jobs"
	}
	return strings.Join(names, " or ")
}

// String says how many pods there are to be.
func (s Scaled) String() string {
	pods := "pods"
	if s.After == 1 {
		pods = "pod"
	}
	title := what(s.app, s.Component)
	switch {
	case !s.Changed():
		return fmt.Sprintf("%s has %d %s in its spec already; nothing to do.", title, s.After, pods)
	case s.Before == nil:
		return fmt.Sprintf("%s is scaled to %d %s; its spec left the number alone before.", title, s.After, pods)
	}
	return fmt.Sprintf("%s is scaled from %d to %d %s.", title, *s.Before, s.After, pods)
}
