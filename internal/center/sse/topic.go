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

// Source knows the entries of topics. It is never called with a lock of the hub held, and
// Publish never calls it, so it may hold a lock of its own in Open, in Close and while it
// publishes; a source that does keeps all promises asked of it here.
type Source interface {
	// Open answers with the entries of a topic as they are. From the moment at which it reads
	// them until Close it publishes every change, those of a key in the order in which they
	// happened.
	Open(topic string) ([]Change, error)
	// Close says that nobody needs the topic. When it returns, nothing of it is being
	// published any more.
	Close(topic string)
}

// topic is guarded by the lock of the hub, but for the channels.
type topic struct {
	name string
	// slots hold the newest frame of each entry; an entry keeps its slot as long as it is
	// there, so that a snapshot can be taken in parts without being copied. free are empty.
	slots []*frame
	index map[string]int
	free  []int
	// ring are the last frames, all those with a number above since.
	ring      []*frame
	ringBytes int
	ringStart uint64

	clients map[*client]struct{}
	// holders are those who hold the topic open; nobody has since idle.
	holders   int
	idleSince time.Time

	// removedWhileOpening are the keys that went while the topic was being opened; nil when it is open.
	removedWhileOpening map[string]bool
	// ready is closed when the source has answered, with err; gone when it has closed the topic.
	ready, closed chan struct{}
	err           error
	closing       bool
}

var errNoSourceResponse = errors.New("the source gave no answer")

// joinTopic holds a topic open, and opens it for the first one who wants it.
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

// openTopic asks the source. What is published between its answer and the moment at which the hub
// has taken it is newer than the answer, or the same; so Publish fills the topic from the
// beginning, and the answer only adds the keys that were not published meanwhile. Should a
// published change be older than the answer, the newer one is published too, as Open says,
// and is on its way. Nobody is sent anything before that.
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

// finishOpening ends it, also when the source panicked: whoever waits is told, and the next one who
// wants the topic tries again.
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

// leaveTopic lets go of a topic that was joined.
func (h *Hub) leaveTopic(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.holders--
	t.idleSince = h.clock.Now()
}

// closeIdleTopics closes the topics that nobody has held open for a while.
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

// commit makes a draft the newest frame of its entry and gives it a number; false if it says
// nothing new.
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
			// Who could see the entry is to hear of it, whatever the change says.
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

// framesAfter are the frames after a number; false if the ring does not reach back to it.
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

// parseLastEventID is what a client says it has seen of this hub; false if it speaks of another one.
func (h *Hub) parseLastEventID(id string) (uint64, bool) {
	prefix := h.replica + "-"
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(id[len(prefix):], 10, 64)
	return n, err == nil
}
