package hub

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
	since     uint64

	subs map[*client]struct{}
	// users are those who hold the topic open; nobody has since idle.
	users int
	idle  time.Time

	// removed are the keys that went while the topic was being opened; nil when it is open.
	removed map[string]bool
	// ready is closed when the source has answered, with err; gone when it has closed the topic.
	ready, gone chan struct{}
	err         error
	closing     bool
}

var errNoAnswer = errors.New("the source gave no answer")

// join holds a topic open, and opens it for the first one who wants it.
func (h *Hub) join(ctx context.Context, name string) (*topic, error) {
	for {
		h.mu.Lock()
		t := h.topics[name]
		if t == nil {
			t = &topic{
				name: name, users: 1, index: map[string]int{}, subs: map[*client]struct{}{}, removed: map[string]bool{},
				ready: make(chan struct{}), gone: make(chan struct{}), err: errNoAnswer,
			}
			h.topics[name] = t
			h.mu.Unlock()
			h.open(t)
			return t, t.err
		}
		wait := t.gone
		if !t.closing {
			t.users++
			wait = t.ready
		}
		h.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			if wait == t.ready {
				h.leave(t)
			}
			return nil, ctx.Err()
		}
		if wait == t.ready {
			return t, t.err
		}
	}
}

// open asks the source. What is published between its answer and the moment at which the hub
// has taken it is newer than the answer, or the same; so Publish fills the topic from the
// beginning, and the answer only adds the keys that were not published meanwhile. Should a
// published change be older than the answer, the newer one is published too, as Open says,
// and is on its way. Nobody is sent anything before that.
func (h *Hub) open(t *topic) {
	defer h.opening(t)
	drafts, err := h.ask(t)
	if err != nil {
		t.err = fmt.Errorf("open topic %s: %w", t.name, err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t.err = nil
	for _, f := range drafts {
		if _, newer := t.index[f.key]; !newer && !t.removed[f.key] {
			h.take(f)
		}
	}
	t.removed, t.ring, t.ringBytes, t.since = nil, nil, 0, h.number
}

// opening ends it, also when the source panicked: whoever waits is told, and the next one who
// wants the topic tries again.
func (h *Hub) opening(t *topic) {
	if t.err != nil {
		h.mu.Lock()
		delete(h.topics, t.name)
		h.mu.Unlock()
	}
	close(t.ready)
}

func (h *Hub) ask(t *topic) ([]*frame, error) {
	changes, err := h.source.Open(t.name)
	if err != nil {
		return nil, err
	}
	drafts := make([]*frame, len(changes))
	for i, c := range changes {
		c.Topic = t.name
		if drafts[i], err = h.draft(t, c); err != nil {
			h.source.Close(t.name)
			return nil, err
		}
	}
	return drafts, nil
}

// leave lets go of a topic that was joined.
func (h *Hub) leave(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.users--
	t.idle = h.clock.Now()
}

// sweep closes the topics that nobody has held open for a while.
func (h *Hub) sweep(linger time.Duration) {
	h.mu.Lock()
	var idle []*topic
	for _, t := range h.topics {
		if t.users == 0 && h.clock.Since(t.idle) >= linger {
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
		close(t.gone)
	}
}

// take makes a draft the newest frame of its entry and gives it a number; false if it says
// nothing new.
func (h *Hub) take(f *frame) bool {
	t := f.topic
	slot, known := t.index[f.key]
	if !known && f.removes() {
		if t.removed != nil {
			t.removed[f.key] = true
		}
		return false
	}
	if known {
		before := t.slots[slot]
		switch {
		case f.removes():
			// Who could see the entry is to hear of it, whatever the change says.
			f.scopes = before.scopes
		case slices.Equal(before.scopes, f.scopes):
			if bytes.Equal(before.rest, f.rest) {
				return false
			}
		default:
			f.was = before.scopes
			f.gone, _ = wire(t.name, f.key, f.event, nil)
		}
	}
	h.number++
	f.number = h.number
	f.head = fmt.Appendf(nil, "id: %s-%d\n", h.replica, f.number)
	t.put(f, slot, known)
	t.remember(f)
	h.counts.frames.Add(1)
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
	if !f.removes() {
		t.slots[slot], t.index[f.key] = f, slot
		delete(t.removed, f.key)
		return
	}
	t.slots[slot] = nil
	t.free = append(t.free, slot)
	delete(t.index, f.key)
	if t.removed != nil {
		t.removed[f.key] = true
	}
}

func (t *topic) remember(f *frame) {
	t.ring = append(t.ring, f)
	t.ringBytes += f.cost()
	for len(t.ring) > ringFrames || t.ringBytes > ringBytes {
		t.since = t.ring[0].number
		t.ringBytes -= t.ring[0].cost()
		t.ring[0] = nil
		t.ring = t.ring[1:]
	}
}

// missed are the frames after a number; false if the ring does not reach back to it.
func (t *topic) missed(after uint64) ([]*frame, bool) {
	if after < t.since {
		return nil, false
	}
	from, _ := slices.BinarySearchFunc(t.ring, after+1, func(f *frame, n uint64) int {
		switch {
		case f.number < n:
			return -1
		case f.number > n:
			return 1
		}
		return 0
	})
	return t.ring[from:], true
}

// lastNumber is what a client says it has seen of this hub; false if it speaks of another one.
func (h *Hub) lastNumber(id string) (uint64, bool) {
	prefix := h.replica + "-"
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(id[len(prefix):], 10, 64)
	return n, err == nil
}
