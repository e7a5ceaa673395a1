// Package publish tells the hub what has become of applications: one topic of all of them, and one
// for each that somebody looks at.
//
// Safety rule: every entry carries the right that is needed to see it, which is the one to list
// objects of its kind where it is. What several people see is made of nothing that one of them
// may not.
package publish

import (
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/inspect/wire"
)

// TopicAll is the topic of all applications.
const TopicAll = "applications"

// TopicFor is that of one application.
func TopicFor(ref model.Ref) string { return "application/" + ref.String() }

// ParseTopic is the application that a topic is about.
func ParseTopic(topic string) (model.Ref, bool) {
	rest, ok := strings.CutPrefix(topic, "application/")
	if !ok {
		return model.Ref{}, false
	}
	return model.ParseRef(rest)
}

// Names of events.
const (
	eventApplication  = "application"
	eventPrimaryCause = "why"
	eventComponent    = "component"
	eventCause        = "cause"
	eventNode         = "node"
)

// ComponentEntry is a component without what is below it.
type ComponentEntry struct {
	Name      string   `json:"name"`
	Type      string   `json:"type,omitempty"`
	Health    string   `json:"health"`
	Message   string   `json:"message,omitempty"`
	Ready     int32    `json:"ready"`
	Desired   int32    `json:"desired"`
	DependsOn []string `json:"dependsOn,omitempty"`
	WaitsFor  []string `json:"waitsFor,omitempty"`
}

// CauseEntry is a cause, and the component that has it.
type CauseEntry struct {
	Component string `json:"component,omitempty"`
	wire.Cause
}

// NodeEntry is an object of the tree. Parent is the key of the one above.
type NodeEntry struct {
	Component string `json:"component,omitempty"`
	Parent    string `json:"parent,omitempty"`
	wire.Object
	Health  string `json:"health"`
	Message string `json:"message,omitempty"`
	Edge    string `json:"edge,omitempty"`
}

// Records knows all applications.
type Records interface {
	Get(model.Ref) *model.Record
	All() []*model.Record
}

// ScopeResolver says which right is needed to see something.
type ScopeResolver interface {
	ObjectScope(explain.ObjectRef) sse.Scope
	ApplicationScopes(*model.Record) []sse.Scope
}

// Publisher is the source of a hub.
type Publisher struct {
	records Records
	scopes  ScopeResolver

	mu   sync.Mutex // also while publishing, so that nothing overtakes what Open answers
	hub  *sse.Hub
	open map[string]bool
}

// New makes a feed. It needs a hub before anybody opens a topic.
func New(records Records, scopes ScopeResolver) *Publisher {
	return &Publisher{records: records, scopes: scopes, open: map[string]bool{}}
}

// SetHub says where to publish.
func (f *Publisher) SetHub(h *sse.Hub) { f.hub = h }

// Open is what a topic has now.
func (f *Publisher) Open(topic string) ([]sse.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if topic == TopicAll {
		f.open[topic] = true
		var out []sse.Change
		for _, r := range f.records.All() {
			out = append(out, f.summary(r)...)
		}
		return out, nil
	}
	ref, ok := ParseTopic(topic)
	if !ok {
		return nil, fmt.Errorf("there is no topic %q; use %s, or application/KIND/NAMESPACE/NAME", topic, TopicAll)
	}
	f.open[topic] = true
	return f.details(f.records.Get(ref)), nil
}

// Close says that nobody follows a topic any more.
func (f *Publisher) Close(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, topic)
}

// PublishChange tells what has become of an application.
func (f *Publisher) PublishChange(before, after *model.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := after
	if r == nil {
		r = before
	}
	var changes []sse.Change
	if f.open[TopicAll] {
		changes = append(changes, diffEntries(f.summary(before), f.summary(after))...)
	}
	if f.open[TopicFor(r.Ref)] {
		changes = append(changes, diffEntries(f.details(before), f.details(after))...)
	}
	if len(changes) > 0 {
		_ = f.hub.Publish(changes...) // what is too large to send is in its statistics
	}
}

// diffEntries is what to say after one thing was said, so that the other one is known.
func diffEntries(before, after []sse.Change) []sse.Change {
	present := make(map[string]bool, len(after))
	for _, c := range after {
		present[c.Key] = true
	}
	for _, c := range before {
		if !present[c.Key] {
			c.Body = nil
			after = append(after, c)
		}
	}
	return after // the hub leaves out what is as before
}

// summary is an application in the topic of all, with the first of its causes: the sentence is
// for who may see what it is about.
func (f *Publisher) summary(r *model.Record) []sse.Change {
	if r == nil {
		return nil
	}
	key := r.Ref.String()
	out := []sse.Change{{Topic: TopicAll, Key: key, Event: eventApplication, Scopes: f.scopes.ApplicationScopes(r), Body: wire.NewSummary(r.View, r.Created)}}
	for _, c := range r.Causes {
		if c.Severity == explain.Error {
			return append(out, sse.Change{Topic: TopicAll, Key: key + "#why", Event: eventPrimaryCause, Scopes: []sse.Scope{f.scopes.ObjectScope(c.Object)}, Body: wire.NewCause(c)})
		}
	}
	return out
}

// details is an application in its own topic.
func (f *Publisher) details(r *model.Record) []sse.Change {
	if r == nil {
		return nil
	}
	w := &entryBuilder{publisher: f, topic: TopicFor(r.Ref), appScopes: f.scopes.ApplicationScopes(r)}
	w.add("application", eventApplication, w.appScopes, wire.NewSummary(r.View, r.Created))
	attributed := map[string]bool{}
	for _, c := range r.Components {
		w.add("component/"+c.Name, eventComponent, w.appScopes, ComponentEntry{Name: c.Name, Type: string(c.Type), Health: string(c.Health), Message: w.componentMessage(r, c),
			Ready: c.Ready, Desired: c.Desired, DependsOn: c.DependsOn, WaitsFor: c.WaitsFor})
		for _, x := range c.Causes {
			attributed[causeKey(x)] = true
			w.addCause(c.Name, x)
		}
		w.addNodes(c.Name, "component/"+c.Name, "", c.Tree)
	}
	for _, x := range r.Causes {
		if !attributed[causeKey(x)] {
			w.addCause("", x)
		}
	}
	w.addNodes("", "rest", "", r.Unassigned)
	return w.changes
}

// entryBuilder collects the entries of an application.
type entryBuilder struct {
	publisher *Publisher
	topic     string
	appScopes []sse.Scope
	changes   []sse.Change
}

func (w *entryBuilder) add(key, event string, scopes []sse.Scope, body any) {
	w.changes = append(w.changes, sse.Change{Topic: w.topic, Key: key, Event: event, Scopes: scopes, Body: body})
}

// componentMessage is what the operator says about a component. About those of others, causes say it.
func (w *entryBuilder) componentMessage(r *model.Record, c inspect.Component) string {
	if !r.Ref.IsManaged() {
		return ""
	}
	return c.Message
}

func causeKey(c explain.Cause) string {
	return fmt.Sprintf("%s/%s/%s/%s", c.Code, c.Object.Kind, c.Object.Name, c.Path)
}

func (w *entryBuilder) addCause(component string, c explain.Cause) {
	w.add("cause/"+component+"/"+causeKey(c), eventCause, []sse.Scope{w.publisher.scopes.ObjectScope(c.Object)}, CauseEntry{Component: component, Cause: wire.NewCause(c)})
}

// addNodes are the objects below one. An object that is below several has a key for each.
func (w *entryBuilder) addNodes(component, keyPrefix, parent string, all []inspect.Node) {
	for _, n := range all {
		key := fmt.Sprintf("%s/%s.%s:%s:%s", keyPrefix, n.Object.Kind, n.Object.Group, n.Object.Namespace, n.Object.Name)
		w.add(key, eventNode, []sse.Scope{w.publisher.scopes.ObjectScope(n.Object)}, NodeEntry{Component: component, Parent: parent, Object: wire.NewObject(n.Object),
			Health: string(n.Health), Message: n.Message, Edge: string(n.Edge)})
		w.addNodes(component, key, key, n.Children)
	}
}
