package edit

import (
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// maxReplicas is what the API takes.
const maxReplicas = 10000

// ScaleResult is what became of the number of pods.
type ScaleResult struct {
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
func (s ScaleResult) Changed() bool { return s.Before == nil || *s.Before != s.After }

// Scale sets how many pods of an AppService run, or of a component, and nothing else.
func Scale(app application.Application, spec map[string]any, component string, replicas int32) (ScaleResult, error) {
	s := ScaleResult{app: app, Component: component, After: int64(replicas)}
	if replicas < 0 || replicas > maxReplicas {
		return s, application.UserErrorf("%s cannot have %d pods; use a number from 0 to %d", displayName(app, component), replicas, maxReplicas)
	}
	target, err := scalableSpec(app, spec, component)
	if err != nil {
		return s, err
	}
	if auto, ok := target["autoscaling"].(map[string]any); ok {
		return s, application.UserErrorf("%s is scaled by its autoscaling, up to %v pods; change minReplicas and maxReplicas there, or remove it first: kubectl edit %s %s -n %s",
			displayName(app, component), auto["maxReplicas"], strings.ToLower(application.KindOf(app)), app.GetName(), app.GetNamespace())
	}
	if before, ok := target["replicas"].(int64); ok {
		s.Before = &before
	}
	target["replicas"] = s.After
	s.Suspended = isSuspended(spec, findByKey(objectList(spec, "components"), "name", component))
	return s, nil
}

// scalableSpec is the part of a spec that has the number of pods.
func scalableSpec(app application.Application, spec map[string]any, component string) (map[string]any, error) {
	switch app.(type) {
	case *appsapi.AppService:
		return spec, checkComponent(app, spec, component)
	case *appsapi.CloudManager:
		return cloudManagerServiceSpec(app, spec, component)
	}
	var scalableNames []string
	for _, c := range componentSpecs(spec) {
		if longRunningSpec(c) != nil && c["database"] == nil {
			scalableNames = append(scalableNames, componentName(c))
		}
	}
	if component == "" {
		return nil, componentRequiredError(app, scalableNames)
	}
	if err := checkComponent(app, spec, component); err != nil {
		return nil, err
	}
	c := findByKey(objectList(spec, "components"), "name", component)
	if c["database"] != nil {
		return nil, notScalableError(app, scalableNames)
	}
	s := longRunningSpec(c)
	if s == nil {
		return nil, application.UserErrorf("component %q of %s is a job, which runs once and has no number of pods; scale %s", component, application.Title(app), joinNames(scalableNames))
	}
	return s, nil
}

// cloudManagerServiceSpec is the service of a CloudManager. Its database is one server: two on the same data would
// destroy it.
func cloudManagerServiceSpec(app application.Application, spec map[string]any, component string) (map[string]any, error) {
	names := []string{"identity", "front"}
	switch component {
	case "":
		return nil, componentRequiredError(app, names)
	case "db":
		return nil, notScalableError(app, names)
	case "identity", "front":
		if service, ok := spec[component].(map[string]any); ok {
			if deployment, ok := service["deployment"].(map[string]any); ok {
				return deployment, nil
			}
		}
	}
	return nil, noComponentError(app, component, append([]string{"db"}, names...))
}

func notScalableError(app application.Application, scalableNames []string) error {
	return application.UserErrorf("the database of %s is one server and cannot be scaled; scale %s", application.Title(app), joinNames(scalableNames))
}

func componentRequiredError(app application.Application, names []string) error {
	return application.UserErrorf("%s has several components, and each its own number of pods; say which one with --component: %s", application.Title(app), joinNames(names)).
		WithNonCLIMessage("%s has several components, and each its own number of pods; say which component: %s", application.Title(app), joinNames(names))
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "nothing: it has only jobs"
	}
	return strings.Join(names, " or ")
}

// String says how many pods there are to be.
func (s ScaleResult) String() string {
	pods := "pods"
	if s.After == 1 {
		pods = "pod"
	}
	title := displayName(s.app, s.Component)
	switch {
	case !s.Changed():
		return fmt.Sprintf("%s has %d %s in its spec already; nothing to do.", title, s.After, pods)
	case s.Before == nil:
		return fmt.Sprintf("%s is scaled to %d %s; its spec left the number alone before.", title, s.After, pods)
	}
	return fmt.Sprintf("%s is scaled from %d to %d %s.", title, *s.Before, s.After, pods)
}
