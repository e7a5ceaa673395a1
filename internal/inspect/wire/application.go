// Package wire defines the JSON of an application for -o json of the plugin and for the HTTP API and
// streams of the application center.
//
// Safety rule: objects that the user has no permission to read are omitted, and their kinds are listed
// in "hidden".
package wire

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// Application is the health of an application and its causes.
type Application struct {
	App        Object      `json:"app"`
	Ready      bool        `json:"ready"`
	Health     string      `json:"health"`
	Since      time.Time   `json:"since"`
	Reason     string      `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Causes     []Cause     `json:"causes"`
	Components []Component `json:"components"`
	// Unassigned are objects of an unmanaged application that belong to no component.
	Unassigned []Node `json:"unassigned,omitempty"`
	// Changes are the newest changes by field managers other than the operator.
	Changes []Change `json:"changes"`
	// HiddenKinds are kinds with objects that are omitted because the user has no permission to read them.
	HiddenKinds []string `json:"hidden,omitempty"`
}

// Object is a reference to an object. Group is empty for built-in kinds.
type Object struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Cause is a reason why an object is not ready.
type Cause struct {
	Code     string     `json:"code"`
	Severity string     `json:"severity"`
	Message  string     `json:"message"`
	Fix      string     `json:"fix,omitempty"`
	Object   Object     `json:"object"`
	Path     string     `json:"path,omitempty"`
	Value    string     `json:"value,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	// AffectedPods is the number of pods with this cause.
	AffectedPods int      `json:"affectedPods,omitempty"`
	Evidence     []string `json:"evidence,omitempty"`
	DocURL       string   `json:"doc,omitempty"`
}

// Change is the last write of a field manager to an object.
type Change struct {
	Object  Object    `json:"object"`
	Manager string    `json:"manager"`
	Time    time.Time `json:"time"`
}

// Component is the health of a component.
type Component struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Health    string   `json:"health"`
	Message   string   `json:"message,omitempty"`
	Ready     int32    `json:"ready"`
	Desired   int32    `json:"desired"`
	DependsOn []string `json:"dependsOn,omitempty"`
	WaitsFor  []string `json:"waitsFor,omitempty"`
	Causes    []Cause  `json:"causes,omitempty"`
	Tree      []Node   `json:"tree,omitempty"`
}

// Node is an object of the tree.
type Node struct {
	Object  `json:",inline"`
	Health  string `json:"health"`
	Message string `json:"message,omitempty"`
	// Edge is the relation to the parent node.
	Edge     string `json:"edge,omitempty"`
	Children []Node `json:"children,omitempty"`
}

// NewApplication converts a view. canSee filters its objects; nil allows all. The caller checks the
// permission for the application itself.
func NewApplication(v inspect.View, canSee func(explain.ObjectRef) bool) Application {
	f := &filter{canSee: canSee}
	a := Application{
		App:   Object{Kind: v.Kind, Namespace: v.Namespace, Name: v.Name},
		Ready: v.Ready, Health: string(v.Health), Since: v.Since, Reason: v.Reason, Message: v.Message,
		Causes: f.causes(v.Causes), Changes: []Change{}, Unassigned: f.nodes(v.Unassigned),
	}
	for _, c := range v.Changes {
		if f.allows(c.Object) {
			a.Changes = append(a.Changes, Change{Object: NewObject(c.Object), Manager: c.Manager, Time: c.Time.UTC()})
		}
	}
	for _, c := range v.Components {
		a.Components = append(a.Components, Component{
			Name: c.Name, Type: string(c.Type), Health: string(c.Health), Message: c.Message, Ready: c.Ready, Desired: c.Desired,
			DependsOn: c.DependsOn, WaitsFor: c.WaitsFor, Causes: f.causes(c.Causes), Tree: f.nodes(c.Tree),
		})
	}
	slices.Sort(f.hiddenKinds)
	a.HiddenKinds = f.hiddenKinds
	return a
}

// filter omits objects and records their kinds.
type filter struct {
	canSee      func(explain.ObjectRef) bool
	hiddenKinds []string
}

func (f *filter) allows(o explain.ObjectRef) bool {
	if f.canSee == nil || f.canSee(o) {
		return true
	}
	if !slices.Contains(f.hiddenKinds, o.Kind) {
		f.hiddenKinds = append(f.hiddenKinds, o.Kind)
	}
	return false
}

func (f *filter) causes(all []explain.Cause) []Cause {
	out := []Cause{}
	for _, c := range all {
		if f.allows(c.Object) {
			out = append(out, NewCause(c))
		}
	}
	return out
}

// nodes omits hidden nodes but keeps their visible children.
func (f *filter) nodes(all []inspect.Node) []Node {
	var out []Node
	for _, n := range all {
		children := f.nodes(n.Children)
		if !f.allows(n.Object) {
			out = append(out, children...)
			continue
		}
		out = append(out, Node{Object: NewObject(n.Object), Health: string(n.Health), Message: n.Message, Edge: string(n.Edge), Children: children})
	}
	return out
}

// NewCause converts a cause.
func NewCause(c explain.Cause) Cause {
	o := Cause{
		Code: string(c.Code), Severity: c.Severity.String(), Message: c.Message, Fix: c.Fix, Object: NewObject(c.Object),
		Path: c.Path, Value: c.Value, AffectedPods: c.AffectedPods, Evidence: c.Evidence, DocURL: c.Code.DocURL(),
	}
	if !c.Since.IsZero() {
		o.Since = &c.Since
	}
	return o
}

// NewObject converts a reference.
func NewObject(o explain.ObjectRef) Object {
	return Object{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
}
