package edit

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// maxReplicas is the maximum that the API allows.
const maxReplicas = 10000

// ScaleResult is the result of [Scale].
type ScaleResult struct {
	app appkind.Application
	// Component is empty for an AppService, which is a single component.
	Component string
	// Before is nil if replicas was not set.
	Before *int64
	After  int64
	// Suspended is set if the change takes effect only after the component is resumed.
	Suspended bool
}

// Changed reports whether the number of replicas changed.
func (s ScaleResult) Changed() bool { return s.Before == nil || *s.Before != s.After }

// Scale sets the replicas of an AppService or of a component, and nothing else.
func Scale(app appkind.Application, spec map[string]any, component string, replicas int32) (ScaleResult, error) {
	s := ScaleResult{app: app, Component: component, After: int64(replicas)}
	if replicas < 0 || replicas > maxReplicas {
		return s, appkind.UserErrorf("%s cannot have %d pods; use a number from 0 to %d", displayName(app, component), replicas, maxReplicas)
	}
	target, err := scalableComponent(app, spec, component)
	if err != nil {
		return s, err
	}
	if auto, ok := target.Server["autoscaling"].(map[string]any); ok {
		return s, appkind.UserErrorf("%s is scaled by its autoscaler, up to %v pods; change minReplicas and maxReplicas of autoscaling, or "+
			"remove autoscaling first: kubectl edit %s %s -n %s",
			displayName(app, component), auto["maxReplicas"], strings.ToLower(appkind.Of(app).Kind), app.GetName(), app.GetNamespace())
	}
	if before, ok := target.Server["replicas"].(int64); ok {
		s.Before = &before
	}
	target.Server["replicas"] = s.After
	s.Suspended = isSuspended(spec, target.Fields)
	return s, nil
}

// scalableComponent returns the component whose replicas are set. A database is one server: two on
// the same data would destroy it.
func scalableComponent(app appkind.Application, spec map[string]any, component string) (appkind.ComponentSpec, error) {
	layout, err := layoutOf(app)
	if err != nil {
		return appkind.ComponentSpec{}, err
	}
	selected, err := selectComponents(app, layout, spec, component)
	if err != nil {
		return appkind.ComponentSpec{}, err
	}
	var scalableNames []string
	for _, c := range layout.Components(spec) {
		if c.Server != nil && c.Database == nil {
			scalableNames = append(scalableNames, c.Name)
		}
	}
	if component == "" && !layout.SingleComponent {
		return appkind.ComponentSpec{}, componentRequiredError(app, scalableNames)
	}
	switch c := selected[0]; {
	case c.Database != nil:
		return c, notScalableError(app, scalableNames)
	case c.Server == nil:
		return c, appkind.UserErrorf("component %q of %s is a job and cannot be scaled; %s", component, appkind.Title(app),
			scaleHint(scalableNames))
	default:
		return c, nil
	}
}

func notScalableError(app appkind.Application, scalableNames []string) error {
	return appkind.UserErrorf("the database of %s is a single server and cannot be scaled; %s", appkind.Title(app),
		scaleHint(scalableNames))
}

func scaleHint(names []string) string {
	if len(names) == 0 {
		return "no component can be scaled"
	}
	return "scale " + joinNames(names)
}

func componentRequiredError(app appkind.Application, names []string) error {
	if len(names) == 0 {
		return appkind.UserErrorf("%s has no component that can be scaled", appkind.Title(app))
	}
	return appkind.UserErrorf("%s has several components; choose one with --component: %s", appkind.Title(app), joinNames(names)).
		WithNonCLIMessage("%s has several components; choose one: %s", appkind.Title(app), joinNames(names))
}

func joinNames(names []string) string { return strings.Join(names, " or ") }

// String returns a message with the number of pods.
func (s ScaleResult) String() string {
	pods := "pods"
	if s.After == 1 {
		pods = "pod"
	}
	title := displayName(s.app, s.Component)
	switch {
	case !s.Changed():
		return fmt.Sprintf("%s already has %d %s in its spec; nothing to do.", title, s.After, pods)
	case s.Before == nil:
		return fmt.Sprintf("%s is scaled to %d %s; replicas was not set before.", title, s.After, pods)
	}
	return fmt.Sprintf("%s is scaled from %d to %d %s.", title, *s.Before, s.After, pods)
}
