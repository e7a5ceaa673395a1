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
	// InSpec is set if replicas is in the spec of the component, where a manifest can set it, too.
	InSpec bool
	// Suspended is set if the change takes effect only after the component is resumed.
	Suspended bool
}

// Changed reports whether the number of replicas changed.
func (s ScaleResult) Changed() bool { return s.Before == nil || *s.Before != s.After }

// Scale sets the replicas of an AppService or of a component, and nothing else. It changes the field in the spec of
// the component if that is set: it has precedence. An AppService always has it there, as its scale subresource.
func Scale(app appkind.Application, spec map[string]any, component string, replicas int32) (ScaleResult, error) {
	s := ScaleResult{app: app, Component: component, After: int64(replicas)}
	if replicas < 0 || replicas > maxReplicas {
		return s, appkind.UserErrorf("%s cannot have %d pods; use a number from 0 to %d", displayName(app, component), replicas, maxReplicas)
	}
	layout := appkind.Of(app).Layout
	if layout == nil { // the replicas in the status can come from any field of the spec
		return s, unsupportedKindError(app)
	}
	o, err := newOperations(app, spec)
	if err != nil {
		return s, err
	}
	target, err := o.scalableComponent(component)
	if err != nil {
		return s, err
	}
	if auto, ok := target.Server["autoscaling"].(map[string]any); ok {
		return s, appkind.UserErrorf("%s is scaled by its autoscaler, up to %v pods; change minReplicas and maxReplicas of autoscaling, or "+
			"remove autoscaling first: kubectl edit %s %s -n %s",
			displayName(app, component), auto["maxReplicas"], strings.ToLower(appkind.Of(app).Kind), app.GetName(), app.GetNamespace())
	}
	before, declared := target.Server[replicasField].(int64)
	requested, ok := o.get(target, replicasField).(int64)
	if s.InSpec = declared || layout.SingleComponent; s.InSpec {
		target.Server[replicasField] = s.After
		o.set(target, replicasField, nil)
	} else {
		o.set(target, replicasField, s.After)
	}
	if declared {
		s.Before = &before
	} else if ok {
		s.Before = &requested
	}
	s.Suspended = o.suspended(target)
	return s, nil
}

// scalableComponent returns the component whose replicas are set. A database is one server: two on
// the same data would destroy it.
func (o operations) scalableComponent(component string) (appkind.ComponentSpec, error) {
	selected, err := o.selected(component)
	if err != nil {
		return appkind.ComponentSpec{}, err
	}
	var scalableNames []string
	for _, c := range o.components {
		if c.Server != nil && c.Database == nil {
			scalableNames = append(scalableNames, c.Name)
		}
	}
	if component == "" && !appkind.Of(o.app).Layout.SingleComponent {
		return appkind.ComponentSpec{}, componentRequiredError(o.app, scalableNames)
	}
	switch c := selected[0]; {
	case c.Database != nil:
		return c, notScalableError(o.app, scalableNames)
	case c.Server == nil:
		return c, appkind.UserErrorf("component %q of %s is a job and cannot be scaled; %s", component, appkind.Title(o.app),
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
	if !s.Changed() {
		return fmt.Sprintf("%s already has %d %s in its spec; nothing to do.", title, s.After, pods)
	}
	message := fmt.Sprintf("%s is scaled to %d %s; replicas was not set before.", title, s.After, pods)
	if s.Before != nil {
		message = fmt.Sprintf("%s is scaled from %d to %d %s.", title, *s.Before, s.After, pods)
	}
	if s.InSpec {
		message += " A manifest that sets replicas restores its own number when it is applied again; to keep this one, omit replicas there."
	}
	return message
}
