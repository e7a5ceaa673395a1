// Package feed tells the hub what has become of applications: one topic of all of them, and one
// for each that somebody looks at.
//
// Safety rule: every entry carries the right that is needed to see it, which is the one to list
// objects of its kind where it is. What several people see is made of nothing that one of them
// may not.
package feed

import (
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/answer"
	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// All is the topic of all applications.
const All = "applications"

// Topic is that of one application.
func Topic(ref model.Ref) string { return "application/" + ref.String() }

// Ref is the application that a topic is about.
func Ref(topic string) (model.Ref, bool) {
	rest, ok := strings.CutPrefix(topic, "application/")
	if !ok {
		return model.Ref{}, false
	}
	return model.ParseRef(rest)
}

// Names of events.
const (
	eventApplication = "application"
	eventWhy         = "why"
	eventComponent   = "component"
	eventCause       = "cause"
	eventNode        = "node"
)

// Component is a component without what is below it.
type Component struct {
	Name      string   `json:"name"`
	Type      string   `json:"type,omitempty"`
	Health    string   `json:"health"`
	Message   string   `json:"message,omitempty"`
	Ready     int32    `json:"ready"`
	Wanted    int32    `json:"wanted"`
	DependsOn []string `json:"dependsOn,omitempty"`
	WaitsFor  []string `json:"waitsFor,omitempty"`
}

// Cause is a cause, and the component that has it.
type Cause struct {
	Component string `json:"component,omitempty"`
	answer.Cause
}

// Node is an object of the tree. Parent is the key of the one above.
type Node struct {
	Component string `json:"component,omitempty"`
	Parent    string `json:"parent,omitempty"`
	answer.Object
	Health  string `json:"health"`
	Message string `json:"message,omitempty"`
	Edge    string `json:"edge,omitempty"`
}

// Records knows all applications.
type Records interface {
	Get(model.Ref) *model.Record
	All() []*model.Record
}

// Rights says which right is needed to see something.
type Rights interface {
	Object(explain.Object) hub.Scope
	Application(*model.Record) []hub.Scope
}

// Feed is the source of a hub.
type Feed struct {
	records Records
	rights  Rights

	mu   sync.Mutex // also while publishing, so that nothing overtakes what Open answers
	hub  *hub.Hub
	open map[string]bool
}

// New makes a feed. It needs a hub before anybody opens a topic.
func New(records Records, rights Rights) *Feed {
	return &Feed{records: records, rights: rights, open: map[string]bool{}}
}

// Into says where to publish.
func (f *Feed) Into(h *hub.Hub) { f.hub = h }

// Open is what a topic has now.
func (f *Feed) Open(topic string) ([]hub.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if topic == All {
		f.open[topic] = true
		var out []hub.Change
		for _, r := range f.records.All() {
			out = append(out, f.summary(r)...)
		}
		return out, nil
	}
	ref, ok := Ref(topic)
	if !ok {
		return nil, fmt.Errorf("there is no topic %q; use %s, or application/KIND/NAMESPACE/NAME", topic, All)
	}
	f.open[topic] = true
	return f.whole(f.records.Get(ref)), nil
}

// Close says that nobody follows a topic any more.
func (f *Feed) Close(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, topic)
}

// Published tells what has become of an application.
func (f *Feed) Published(before, after *model.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := after
	if r == nil {
		r = before
	}
	var changes []hub.Change
	if f.open[All] {
		changes = append(changes, difference(f.summary(before), f.summary(after))...)
	}
	if f.open[Topic(r.Ref)] {
		changes = append(changes, difference(f.whole(before), f.whole(after))...)
	}
	if len(changes) > 0 {
		_ = f.hub.Publish(changes...) // what is too large to send is in its statistics
	}
}

// difference is what to say after one thing was said, so that the other one is known.
func difference(before, after []hub.Change) []hub.Change {
	there := make(map[string]bool, len(after))
	for _, c := range after {
		there[c.Key] = true
	}
	for _, c := range before {
		if !there[c.Key] {
			c.Body = nil
			after = append(after, c)
		}
	}
	return after // the hub leaves out what is as before
}

// summary is an application in the topic of all, with the first of its causes: the sentence is
// for who may see what it is about.
func (f *Feed) summary(r *model.Record) []hub.Change {
	if r == nil {
		return nil
	}
	key := r.Ref.String()
	out := []hub.Change{{Topic: All, Key: key, Event: eventApplication, Scopes: f.rights.Application(r), Body: answer.SummaryOf(r.View, r.Created)}}
	for _, c := range r.Causes {
		if c.Severity == explain.Error {
			return append(out, hub.Change{Topic: All, Key: key + "#why", Event: eventWhy, Scopes: []hub.Scope{f.rights.Object(c.Object)}, Body: answer.CauseOf(c)})
		}
	}
	return out
}

// whole is an application in its own topic.
func (f *Feed) whole(r *model.Record) []hub.Change {
	if r == nil {
		return nil
	}
	w := &walk{feed: f, topic: Topic(r.Ref), ours: f.rights.Application(r)}
	w.add("application", eventApplication, w.ours, answer.SummaryOf(r.View, r.Created))
	of := map[string]bool{}
	for _, c := range r.Components {
		w.add("component/"+c.Name, eventComponent, w.ours, Component{Name: c.Name, Type: string(c.Type), Health: string(c.Health), Message: w.message(r, c),
			Ready: c.Ready, Wanted: c.Wanted, DependsOn: c.DependsOn, WaitsFor: c.WaitsFor})
		for _, x := range c.Causes {
			of[causeKey(x)] = true
			w.cause(c.Name, x)
		}
		w.nodes(c.Name, "component/"+c.Name, "", c.Tree)
	}
	for _, x := range r.Causes {
		if !of[causeKey(x)] {
			w.cause("", x)
		}
	}
	w.nodes("", "rest", "", r.Rest)
	return w.out
}

// walk collects the entries of an application.
type walk struct {
	feed  *Feed
	topic string
	ours  []hub.Scope
	out   []hub.Change
}

func (w *walk) add(key, event string, scopes []hub.Scope, body any) {
	w.out = append(w.out, hub.Change{Topic: w.topic, Key: key, Event: event, Scopes: scopes, Body: body})
}

// message is what the operator says about a component. About those of others, causes say it.
func (w *walk) message(r *model.Record, c view.Component) string {
	if !r.Ref.IsOurs() {
		return ""
	}
	return c.Message
}

func causeKey(c explain.Cause) string {
	return fmt.Sprintf("%s/%s/%s/%s", c.Code, c.Object.Kind, c.Object.Name, c.Path)
}

func (w *walk) cause(component string, c explain.Cause) {
	w.add("cause/"+component+"/"+causeKey(c), eventCause, []hub.Scope{w.feed.rights.Object(c.Object)}, Cause{Component: component, Cause: answer.CauseOf(c)})
}

// nodes are the objects below one. An object that is below several has a key for each.
func (w *walk) nodes(component, above, parent string, all []view.Node) {
	for _, n := range all {
		key := fmt.Sprintf("%s/%s.%s:%s:%s", above, n.Object.Kind, n.Object.Group, n.Object.Namespace, n.Object.Name)
		w.add(key, eventNode, []hub.Scope{w.feed.rights.Object(n.Object)}, Node{Component: component, Parent: parent, Object: answer.ObjectOf(n.Object),
			Health: string(n.Health), Message: n.Message, Edge: string(n.Edge)})
		w.nodes(component, key, key, n.Children)
	}
}
