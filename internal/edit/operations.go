package edit

import (
	"cmp"
	"slices"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// Fields of the operations of a component.
const (
	restartRequestedAt  = "restartRequestedAt"
	rotationRequestedAt = "rotationRequestedAt"
	suspendField        = "suspend"
	replicasField       = "replicas"
)

// operations are the requests in a stored spec, see appsapi.Operations.
type operations struct {
	app        appkind.Application
	spec       map[string]any
	components []appkind.ComponentSpec
}

func newOperations(app appkind.Application, spec map[string]any) (operations, error) {
	if !appkind.Of(app).Operations {
		return operations{}, unsupportedKindError(app)
	}
	return operations{app, spec, componentsOf(app, spec)}, nil
}

// componentsOf returns the components of an application. Only its operator can read the components in the spec of
// a discovered kind, but they are also in its status.
func componentsOf(app appkind.Application, spec map[string]any) []appkind.ComponentSpec {
	if layout := appkind.Of(app).Layout; layout != nil {
		return layout.Components(spec)
	}
	var out []appkind.ComponentSpec
	stack, ok := app.(appkind.Stack)
	if !ok {
		return nil
	}
	for _, c := range stack.StackStatus().Components {
		component := appkind.ComponentSpec{Name: c.Name}
		if c.Type != appsapi.ComponentJob {
			component.Server = map[string]any{}
		}
		if c.Type == appsapi.ComponentDatabase {
			component.Database = map[string]any{}
		}
		out = append(out, component)
	}
	return out
}

// nameOf returns the name of a component in the operations.
func (o operations) nameOf(c appkind.ComponentSpec) string { return cmp.Or(c.Name, o.app.GetName()) }

// get returns a field of the operations of a component.
func (o operations) get(c appkind.ComponentSpec, field string) any {
	all := objectList(o.spec, "operations")
	entry := findByKey(all, "component", o.nameOf(c))
	if entry == nil {
		entry = findByKey(all, "component", c.RenamedFrom)
	}
	return entry[field]
}

// set sets a field of the operations of a component; nil removes it.
func (o operations) set(c appkind.ComponentSpec, field string, value any) {
	all := objectList(o.spec, "operations")
	entry := findByKey(all, "component", o.nameOf(c))
	if entry == nil {
		entry = findByKey(all, "component", c.RenamedFrom) // as the operator does
	}
	if entry == nil {
		entry = map[string]any{}
		all = append(all, entry)
	}
	entry["component"] = o.nameOf(c)
	if entry[field] = value; value == nil {
		delete(entry, field)
	}
	all = slices.DeleteFunc(all, func(e any) bool { return len(e.(map[string]any)) == 1 || o.isUnused(e.(map[string]any)) })
	if o.spec["operations"] = all; len(all) == 0 {
		delete(o.spec, "operations")
	}
}

// isUnused reports whether operations are of a component that is no longer in the spec.
func (o operations) isUnused(entry map[string]any) bool {
	if appkind.Of(o.app).Layout == nil {
		return false // its status may lag behind its spec
	}
	return !slices.ContainsFunc(o.components, func(c appkind.ComponentSpec) bool {
		return entry["component"] == o.nameOf(c) || entry["component"] == c.RenamedFrom
	})
}

// appSuspended reports whether the application as a whole is suspended.
func (o operations) appSuspended() bool {
	suspended, _ := o.spec[suspendField].(bool)
	return suspended
}

// suspendedItself reports whether a component is suspended individually.
func (o operations) suspendedItself(c appkind.ComponentSpec) bool {
	suspended, _ := o.get(c, suspendField).(bool)
	return suspended
}

// suspended reports whether a component or its application is suspended.
func (o operations) suspended(c appkind.ComponentSpec) bool {
	return o.appSuspended() || o.suspendedItself(c)
}
