package sse

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Scope is the permission to list a resource in a namespace.
type Scope struct{ Group, Resource, Namespace string }

// Change is the new state of an entry of a topic.
type Change struct {
	Topic, Key string
	// Scopes are the permissions of which any one is enough to see the entry. Without scopes, no client sees it.
	Scopes []Scope
	// Event is the name of the event on the stream. Empty means "change".
	Event string
	// Body is sent as JSON. Nil means that the entry was removed.
	Body any
}

// Reserved event names.
const (
	eventSnapshot  = "snapshot"
	eventReset     = "reset"
	eventReconnect = "reconnect"
	eventChange    = "change"
)

// frame is an encoded change. All clients share it, so it is immutable after it gets a sequence number.
type frame struct {
	topic      *topic
	key, event string
	sequence   uint64
	// slot is the position of the entry in the topic.
	slot int
	// scopes are the permissions to see the entry. previousScopes are the permissions before this change, if
	// they were different.
	scopes, previousScopes []Scope
	// idLine is the line with the id. payload is the rest of the event. data is the entry within payload, as
	// used in snapshots.
	idLine, payload, data []byte
	// removalPayload is the payload for clients that were only allowed to see the previous state.
	removalPayload []byte
}

// isRemoval reports whether the entry was removed for all clients.
func (f *frame) isRemoval() bool { return f.data == nil }

// cost is the memory that a queued frame accounts for: its bytes, which this client may be the last one to
// reference, and its queue entry.
func (f *frame) cost() int {
	return len(f.idLine) + len(f.payload) + len(f.removalPayload) + frameOverhead
}

// newFrame encodes a change. commit assigns the sequence number and the slot.
func (h *Hub) newFrame(t *topic, c Change) (*frame, error) {
	event := c.Event
	switch {
	case event == "":
		event = eventChange
	case event == eventSnapshot, event == eventReset, event == eventReconnect, strings.ContainsAny(event, "\r\n"):
		return nil, fmt.Errorf("publish %s %s: event name %q is reserved or invalid; use another name", c.Topic, c.Key, event)
	}
	var body []byte
	if c.Body != nil {
		var err error
		h.counters.encodes.Add(1)
		if body, err = json.Marshal(c.Body); err != nil {
			return nil, fmt.Errorf("publish %s %s: encode %T: %w", c.Topic, c.Key, c.Body, err)
		}
		if len(body) > MaxBodyBytes {
			return nil, fmt.Errorf("publish %s %s: body has %d bytes, limit is %d; split the body into more keys",
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

// encodeEvent encodes an event without its id line. It returns the event and the entry within it.
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
		// Unreachable: json.Marshal replaces invalid UTF-8.
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
