package look

import (
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// Answer is a look for programs.
type Answer struct {
	cli.Header `json:",inline"`
	App        Object      `json:"app"`
	Ready      bool        `json:"ready"`
	Health     string      `json:"health"`
	Since      time.Time   `json:"since"`
	Reason     string      `json:"reason,omitempty"`
	Message    string      `json:"message,omitempty"`
	Causes     []Cause     `json:"causes"`
	Components []Component `json:"components"`
	// Changes are the newest ones, by others than the operator.
	Changes []Change `json:"changes"`
	// Missed is what could not be read.
	Missed []string `json:"missed,omitempty"`
}

// Object names an object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Cause is why something is not ready.
type Cause struct {
	Code     string     `json:"code"`
	Severity string     `json:"severity"`
	Sentence string     `json:"sentence"`
	Fix      string     `json:"fix,omitempty"`
	Object   Object     `json:"object"`
	Path     string     `json:"path,omitempty"`
	Value    string     `json:"value,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	// Affects is how many pods have it.
	Affects  int      `json:"affects,omitempty"`
	Evidence []string `json:"evidence,omitempty"`
	Doc      string   `json:"doc,omitempty"`
}

// Change is who last wrote an object.
type Change struct {
	Object Object    `json:"object"`
	By     string    `json:"by"`
	Time   time.Time `json:"time"`
}

// Component is one part of an application.
type Component struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Health    string   `json:"health"`
	Message   string   `json:"message,omitempty"`
	Ready     int32    `json:"ready"`
	Wanted    int32    `json:"wanted"`
	DependsOn []string `json:"dependsOn,omitempty"`
	WaitsFor  []string `json:"waitsFor,omitempty"`
	Causes    []Cause  `json:"causes,omitempty"`
	Tree      []Node   `json:"tree,omitempty"`
}

// Node is an object of the tree.
type Node struct {
	Object   `json:",inline"`
	Health   string `json:"health"`
	Message  string `json:"message,omitempty"`
	Children []Node `json:"children,omitempty"`
}

// Answer is the look for programs, as an answer of a kind.
func (l Look) Answer(kind string) Answer {
	a := Answer{
		Header: cli.NewHeader(kind), App: Object{Kind: l.Kind, Namespace: l.Namespace, Name: l.Name},
		Ready: l.Ready, Health: string(l.Health), Since: l.Since, Reason: l.Reason, Message: l.Message,
		Causes: causes(l.Causes), Missed: l.Missed, Changes: []Change{},
	}
	for _, c := range l.Changes {
		a.Changes = append(a.Changes, Change{Object: object(c.Object), By: c.By, Time: c.Time.UTC()})
	}
	for _, c := range l.Components {
		a.Components = append(a.Components, Component{
			Name: c.Name, Type: string(c.Type), Health: string(c.Health), Message: c.Message, Ready: c.Ready, Wanted: c.Wanted,
			DependsOn: c.DependsOn, WaitsFor: c.WaitsFor, Causes: causes(c.Causes), Tree: nodes(c.Tree),
		})
	}
	return a
}

func causes(all []explain.Cause) []Cause {
	out := []Cause{}
	for _, c := range all {
		o := Cause{
			Code: string(c.Code), Severity: c.Severity.String(), Sentence: c.Sentence, Fix: c.Fix, Object: object(c.Object),
			Path: c.Path, Value: c.Value, Affects: c.Affects, Evidence: c.Evidence, Doc: c.Code.Doc(),
		}
		if !c.Since.IsZero() {
			o.Since = &c.Since
		}
		out = append(out, o)
	}
	return out
}

func object(o explain.Object) Object {
	return Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID)}
}

func nodes(all []view.Node) []Node {
	var out []Node
	for _, n := range all {
		out = append(out, Node{Object: object(n.Object), Health: string(n.Health), Message: n.Message, Children: nodes(n.Children)})
	}
	return out
}
