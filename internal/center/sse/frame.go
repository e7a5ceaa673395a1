package sse

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Scope is a right: to list a resource in a namespace.
type Scope struct{ Group, Resource, Namespace string }

// Change is what an entry of a topic is from now on.
type Change struct {
	Topic, Key string
	// Scopes are the rights of which one is needed to see the entry. Without any, nobody does.
	Scopes []Scope
	// Event is the name of the event on the stream, "change" if empty.
	Event string
	// Body is sent as JSON. Nil says that the entry is gone.
	Body any
}

// Names of events that say something about the stream and not about an entry.
const (
	eventSnapshot  = "snapshot"
	eventReset     = "reset"
	eventReconnect = "reconnect"
	eventChange    = "change"
)

// frame is a change as it is sent. All clients share it, so nothing in it changes once it has
// a number.
type frame struct {
	topic      *topic
	key, event string
	sequence   uint64
	// slot is where the topic keeps the entry.
	slot int
	// scopes are those who may see it; was are those who could see the entry before, if others.
	scopes, previousScopes []Scope
	// idLine is the line with the id. rest is all that follows, and data of it the entry itself:
	// what a snapshot has of it.
	idLine, payload, data []byte
	// removalPayload is the rest for those who only could see the entry before.
	removalPayload []byte
}

// isRemoval says that the entry is gone for everybody.
func (f *frame) isRemoval() bool { return f.data == nil }

// cost is what a client that holds the frame is charged: the bytes, which it may be the last
// one to hold, and its place in the queue.
func (f *frame) cost() int {
	return len(f.idLine) + len(f.payload) + len(f.removalPayload) + frameOverhead
}

// newFrame encodes a change. Number and slot come when the topic takes it.
func (h *Hub) newFrame(t *topic, c Change) (*frame, error) {
	event := c.Event
	switch {
	case event == "":
		event = eventChange
	case event == eventSnapshot, event == eventReset, event == eventReconnect, strings.ContainsAny(event, "\r\n"):
		return nil, fmt.Errorf("publish %s %s: event %q is not a name for a change: use another one", c.Topic, c.Key, event)
	}
	var body []byte
	if c.Body != nil {
		var err error
		h.counters.encodes.Add(1)
		if body, err = json.Marshal(c.Body); err != nil {
			return nil, fmt.Errorf("publish %s %s: encode %T: %w", c.Topic, c.Key, c.Body, err)
		}
		if len(body) > MaxBodyBytes {
			return nil, fmt.Errorf("publish %s %s: body has %d bytes of at most %d: divide it among more keys",
				c.Topic, c.Key, len(body), MaxBodyBytes)
		}
	}
	f := &frame{topic: t, key: c.Key, event: event, scopes: c.Scopes}
	if body == nil || string(body) == "null" {
		f.payload, _ = encodeEvent(t.name, c.Key, event, nil)
		return f, nil
	}
	f.payload, f.data = encodeEvent(t.name, c.Key, event, body)
	return f, nil
}

// encodeEvent is an event after the line with its id, and the part of it that is the entry.
func encodeEvent(topic, key, event string, body []byte) (rest, data []byte) {
	b := make([]byte, 0, len(body)+len(topic)+len(key)+2*len(event)+64)
	b = append(b, "event: "...)
	b = append(b, event...)
	b = append(b, "\ndata: "...)
	from := len(b)
	b = append(b, `{"topic":`...)
	b = appendString(b, topic)
	b = append(b, `,"key":`...)
	b = appendString(b, key)
	b = append(b, `,"event":`...)
	b = appendString(b, event)
	if body != nil {
		b = append(b, `,"body":`...)
		b = append(b, body...)
	}
	b = append(b, '}')
	to := len(b)
	b = append(b, "\n\n"...)
	return b, b[from:to]
}

func appendString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		// Any string can be encoded: what is not UTF-8 is replaced.
		return append(b, `""`...)
	}
	return append(b, quoted...)
}

func allowsAny(allows func(Scope) bool, scopes []Scope) bool {
	for _, s := range scopes {
		if allows(s) {
			return true
		}
	}
	return false
}
