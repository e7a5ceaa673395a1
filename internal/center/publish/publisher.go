// Package publish converts changes of applications to entries of hub topics: one topic for all applications,
// and one topic per application with subscribers.
//
// Safety rule: every entry carries the permission that is required to see it: list on the resource in the
// namespace. An entry never contains data that requires another permission.
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

// TopicFor returns the topic of one application.
func TopicFor(ref model.Ref) string { return "application/" + ref.String() }

// ParseTopic returns the application of a topic.
func ParseTopic(topic string) (model.Ref, bool) {
	rest, ok := strings.CutPrefix(topic, "application/")
	if !ok {
		return model.Ref{}, false
	}
	return model.ParseRef(rest)
}

// Event names.
const (
	eventApplication  = "application"
	eventPrimaryCause = "why"
	eventComponent    = "component"
	eventCause        = "cause"
	eventNode         = "node"
)

// ComponentEntry is a component without its objects.
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

// CauseEntry is a cause and its component.
type CauseEntry struct {
	Component string `json:"component,omitempty"`
	wire.Cause
}

// NodeEntry is an object of the tree. Parent is the key of its parent.
type NodeEntry struct {
	Component string `json:"component,omitempty"`
	Parent    string `json:"parent,omitempty"`
	wire.Object
	Health  string `json:"health"`
	Message string `json:"message,omitempty"`
	Edge    string `json:"edge,omitempty"`
}

// Records provides the records of all applications.
type Records interface {
	Get(model.Ref) *model.Record
	All() []*model.Record
}

// ScopeResolver returns the permissions that are required to see an object or an application.
type ScopeResolver interface {
	ObjectScope(explain.ObjectRef) sse.Scope
	ApplicationScopes(*model.Record) []sse.Scope
}

// Publisher is the source of a hub.
type Publisher struct {
	records Records
	scopes  ScopeResolver

	mu   sync.Mutex // held while publishing too, so that no change overtakes the result of Open
	hub  *sse.Hub
	open map[string]bool
}

// New returns a publisher. Call SetHub before a topic is opened.
func New(records Records, scopes ScopeResolver) *Publisher {
	return &Publisher{records: records, scopes: scopes, open: map[string]bool{}}
}

// SetHub sets the hub to publish to.
func (f *Publisher) SetHub(h *sse.Hub) { f.hub = h }

// Open returns the current entries of a topic.
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
		return nil, fmt.Errorf("unknown topic %q; use %s or application/KIND/NAMESPACE/NAME", topic, TopicAll)
	}
	f.open[topic] = true
	return f.details(f.records.Get(ref)), nil
}

// Close is called when a topic has no subscribers.
func (f *Publisher) Close(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, topic)
}

// PublishChange publishes a change of an application to the open topics.
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
		_ = f.hub.Publish(changes...) // fails only for entries that are too large or cannot be encoded
	}
}

// diffEntries returns the changes that turn the entries of before into the entries of after.
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
	return after // the hub drops unchanged entries
}

// summary returns the entries of an application in TopicAll: its summary and its first error cause. The cause is
// a separate entry because it requires permission to list its object.
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

// details returns the entries of an application in its own topic.
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

// componentMessage returns the message of a component of a managed application. For other applications it is
// empty: the message may be about a hidden member, and the causes contain it with the required permission.
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

// addNodes adds a tree of objects. An object with several parents has one key per parent.
func (w *entryBuilder) addNodes(component, keyPrefix, parent string, all []inspect.Node) {
	for _, n := range all {
		key := fmt.Sprintf("%s/%s.%s:%s:%s", keyPrefix, n.Object.Kind, n.Object.Group, n.Object.Namespace, n.Object.Name)
		w.add(key, eventNode, []sse.Scope{w.publisher.scopes.ObjectScope(n.Object)}, NodeEntry{Component: component, Parent: parent, Object: wire.NewObject(n.Object),
			Health: string(n.Health), Message: n.Message, Edge: string(n.Edge)})
		w.addNodes(component, key, key, n.Children)
	}
}
