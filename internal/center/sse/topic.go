package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Source provides the entries of topics. It is never called with the lock of the hub held, and Publish never
// calls it, so it can hold its own lock in Open, in Close and while publishing. Holding a lock in all three
// is enough to meet the requirements below.
type Source interface {
	// Open returns the current entries of a topic. From the time at which it reads them until Close, the
	// source publishes every change, in order for each key.
	Open(topic string) ([]Change, error)
	// Close is called when the topic has no subscribers. After it returns, the source must not publish
	// changes of the topic.
	Close(topic string)
}

// topic is guarded by the lock of the hub, except for the channels.
type topic struct {
	name string
	// slots contains the newest frame of each entry. An entry keeps its slot until it is removed, so that a
	// snapshot can be sent in parts without a copy. free contains the empty slots.
	slots []*frame
	index map[string]int
	free  []int
	// ring contains the last frames: all frames with a sequence number above ringStart.
	ring      []*frame
	ringBytes int
	ringStart uint64

	clients map[*client]struct{}
	// holders is the number of streams that use the topic. idleSince is the time at which it last decreased.
	holders   int
	idleSince time.Time

	// removedWhileOpening contains keys that were removed while the topic was being opened; nil when it is open.
	removedWhileOpening map[string]bool
	// ready is closed when the source has opened the topic or failed with err. closed is closed when the
	// source has closed it.
	ready, closed chan struct{}
	err           error
	closing       bool
}

var errNoSourceResponse = errors.New("the source did not respond")

// joinTopic increments the holders of a topic and opens it for the first one.
func (h *Hub) joinTopic(ctx context.Context, name string) (*topic, error) {
	for {
		h.mu.Lock()
		t := h.topics[name]
		if t == nil {
			t = &topic{
				name: name, holders: 1, index: map[string]int{}, clients: map[*client]struct{}{}, removedWhileOpening: map[string]bool{},
				ready: make(chan struct{}), closed: make(chan struct{}), err: errNoSourceResponse,
			}
			h.topics[name] = t
			h.mu.Unlock()
			h.openTopic(t)
			return t, t.err
		}
		wait := t.closed
		if !t.closing {
			t.holders++
			wait = t.ready
		}
		h.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			if wait == t.ready {
				h.leaveTopic(t)
			}
			return nil, ctx.Err()
		}
		if wait == t.ready {
			return t, t.err
		}
	}
}

// openTopic loads the entries from the source. Publish fills the topic while it is being opened, and the
// loaded entries only add keys that were not published meanwhile, because published changes are usually newer.
// If a published change is older than the loaded entry, the source also publishes the newer one, as required
// by Open. Clients receive nothing until the topic is open.
func (h *Hub) openTopic(t *topic) {
	defer h.finishOpening(t)
	drafts, err := h.loadTopic(t)
	if err != nil {
		t.err = fmt.Errorf("open topic %s: %w", t.name, err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.err = nil
	for _, f := range drafts {
		if _, newer := t.index[f.key]; !newer && !t.removedWhileOpening[f.key] {
			h.commit(f)
		}
	}
	t.removedWhileOpening, t.ring, t.ringBytes, t.ringStart = nil, nil, 0, h.sequence
}

// finishOpening unblocks waiting streams, also after a panic of the source. After an error the next stream
// opens the topic again.
func (h *Hub) finishOpening(t *topic) {
	if t.err != nil {
		h.mu.Lock()
		delete(h.topics, t.name)
		h.mu.Unlock()
	}
	close(t.ready)
}

func (h *Hub) loadTopic(t *topic) ([]*frame, error) {
	changes, err := h.source.Open(t.name)
	if err != nil {
		return nil, err
	}
	drafts := make([]*frame, len(changes))
	for i, c := range changes {
		c.Topic = t.name
		if drafts[i], err = h.newFrame(t, c); err != nil {
			h.source.Close(t.name)
			return nil, err
		}
	}
	return drafts, nil
}

// leaveTopic reverts joinTopic.
func (h *Hub) leaveTopic(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.holders--
	t.idleSince = h.clock.Now()
}

// closeIdleTopics closes topics that have been unused for idleTimeout.
func (h *Hub) closeIdleTopics(idleTimeout time.Duration) {
	h.mu.Lock()
	var idle []*topic
	for _, t := range h.topics {
		if t.holders == 0 && h.clock.Since(t.idleSince) >= idleTimeout {
			t.closing = true
			idle = append(idle, t)
		}
	}
	h.mu.Unlock()
	for _, t := range idle {
		h.source.Close(t.name)
		h.mu.Lock()
		delete(h.topics, t.name)
		h.mu.Unlock()
		close(t.closed)
	}
}

// commit makes a draft the newest frame of its entry and assigns a sequence number. It returns false if the
// draft changes nothing.
func (h *Hub) commit(f *frame) bool {
	t := f.topic
	slot, known := t.index[f.key]
	if !known && f.isRemoval() {
		if t.removedWhileOpening != nil {
			t.removedWhileOpening[f.key] = true
		}
		return false
	}
	if known {
		previous := t.slots[slot]
		switch {
		case f.isRemoval():
			// All clients that could see the entry must receive its removal, whatever the scopes of the change.
			f.scopes = previous.scopes
		case slices.Equal(previous.scopes, f.scopes):
			if bytes.Equal(previous.payload, f.payload) {
				return false
			}
		default:
			f.previousScopes = previous.scopes
			f.removalPayload, _ = encodeEvent(t.name, f.key, f.event, nil)
		}
	}
	h.sequence++
	f.sequence = h.sequence
	f.idLine = fmt.Appendf(nil, "id: %s-%d\n", h.replica, f.sequence)
	t.put(f, slot, known)
	t.appendToRing(f)
	h.counters.frames.Add(1)
	return true
}

func (t *topic) put(f *frame, slot int, known bool) {
	switch {
	case known:
	case len(t.free) > 0:
		slot = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	default:
		slot = len(t.slots)
		t.slots = append(t.slots, nil)
	}
	f.slot = slot
	if !f.isRemoval() {
		t.slots[slot], t.index[f.key] = f, slot
		delete(t.removedWhileOpening, f.key)
		return
	}
	t.slots[slot] = nil
	t.free = append(t.free, slot)
	delete(t.index, f.key)
	if t.removedWhileOpening != nil {
		t.removedWhileOpening[f.key] = true
	}
}

func (t *topic) appendToRing(f *frame) {
	t.ring = append(t.ring, f)
	t.ringBytes += f.cost()
	for len(t.ring) > maxRingFrames || t.ringBytes > maxRingBytes {
		t.ringStart = t.ring[0].sequence
		t.ringBytes -= t.ring[0].cost()
		t.ring[0] = nil
		t.ring = t.ring[1:]
	}
}

// framesAfter returns the frames after a sequence number, or false if the ring does not contain all of them.
func (t *topic) framesAfter(after uint64) ([]*frame, bool) {
	if after < t.ringStart {
		return nil, false
	}
	from, _ := slices.BinarySearchFunc(t.ring, after+1, func(f *frame, n uint64) int {
		switch {
		case f.sequence < n:
			return -1
		case f.sequence > n:
			return 1
		}
		return 0
	})
	return t.ring[from:], true
}

// parseLastEventID returns the sequence number of an event id, or false if the id is of another hub.
func (h *Hub) parseLastEventID(id string) (uint64, bool) {
	prefix := h.replica + "-"
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(id[len(prefix):], 10, 64)
	return n, err == nil
}
