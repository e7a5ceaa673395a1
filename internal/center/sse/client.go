package sse

import (
	"cmp"
	"slices"
	"sync"
)

// client is what waits for one stream.
//
//	attach ─► walking: snapshot in parts ─► following: deltas ─► detach
//	             ▲                              │
//	             └──────── rights changed ──────┘
//
// A walk goes over the slots of the topics. Frames of slots that it has passed are queued and
// sent when it is complete; those of slots before it need not be, because it will come by. So
// a snapshot of any size is exact without being held in memory or holding anybody up.
type client struct {
	hub    *Hub
	allows func(Scope) bool
	topics []*topic
	wake   chan struct{}

	// Guarded by the lock of the hub: the newest number that was offered, the next slot of the
	// walk, and the number at which the walk began.
	lastOffered      uint64
	cursor           position
	snapshotSequence uint64

	// mu guards the queue; it is taken after the lock of the hub and never before it.
	mu sync.Mutex
	// queue is in the order of numbers, with holes where a newer frame of the entry came;
	// where is the place of each entry in it.
	queue      []queuedFrame
	queueIndex map[entryID]int
	spareQueue []queuedFrame
	// pendingBytes are the costs of the queue and of what is being written.
	pendingBytes int
	// slow says that it was too much, and that the stream is to end.
	slow bool
}

// position is a slot of one of the client's topics.
type position struct{ topic, slot int }

type entryID struct{ topic, key string }

// queuedFrame is a frame for one client: gone if it could see the entry and may no longer.
type queuedFrame struct {
	frame   *frame
	removal bool
}

// smallQueueSize is what a client keeps room for when it has nothing to wait for.
const smallQueueSize = 256

func (h *Hub) newClient(s Subscription, topics []*topic) *client {
	allows := s.Allows
	if allows == nil {
		allows = func(Scope) bool { return false }
	}
	return &client{hub: h, allows: allows, topics: topics, wake: make(chan struct{}, 1), queueIndex: map[entryID]int{}}
}

// attach lets a client take part, from the id on that it saw last if that is possible. It says
// whether it is; otherwise the client is at the beginning of a walk.
func (h *Hub) attach(c *client, lastID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range c.topics {
		t.clients[c] = struct{}{}
	}
	if n, ok := h.parseLastEventID(lastID); ok && c.resume(n) {
		h.counters.resumed.Add(1)
		return true
	}
	c.startSnapshot()
	return false
}

func (h *Hub) detach(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range c.topics {
		delete(t.clients, c)
	}
}

// resume queues what the client missed; false if not all of that is known any more.
func (c *client) resume(after uint64) bool {
	if after > c.hub.sequence {
		return false
	}
	var all []*frame
	for _, t := range c.topics {
		frames, ok := t.framesAfter(after)
		if !ok {
			return false
		}
		all = append(all, frames...)
	}
	slices.SortFunc(all, func(a, b *frame) int { return cmp.Compare(a.sequence, b.sequence) })
	c.cursor = position{topic: len(c.topics)}
	c.offer(all)
	return !c.slow
}

// startSnapshot forgets what waits and goes back to the beginning of a walk.
func (c *client) startSnapshot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.queueIndex, c.pendingBytes, c.slow = nil, map[entryID]int{}, 0, false
	c.cursor, c.snapshotSequence = position{}, c.hub.sequence
	c.hub.counters.snapshots.Add(1)
}

// restartSnapshot is restart for a client that has been attached for a while.
func (c *client) restartSnapshot() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.startSnapshot()
	c.hub.counters.resets.Add(1)
}

// nextPart is the next part of a walk, and whether it is the last one. It looks at few slots at a
// time, since everybody waits for the lock meanwhile.
func (c *client) nextPart(into []*frame) (frames []*frame, complete bool) {
	const slots = 256
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	size := 0
	for range slots {
		for c.cursor.topic < len(c.topics) && c.cursor.slot >= len(c.topics[c.cursor.topic].slots) {
			c.cursor = position{topic: c.cursor.topic + 1}
		}
		if c.cursor.topic == len(c.topics) {
			return into, true
		}
		f := c.topics[c.cursor.topic].slots[c.cursor.slot]
		if f != nil && allowsAny(c.allows, f.scopes) {
			if size += len(f.data); size > writeBufferSize && len(into) > 0 {
				return into, false
			}
			into = append(into, f)
		}
		c.cursor.slot++
	}
	return into, false
}

// offer queues the frames that the client follows and may see. The lock of the hub is held.
func (c *client) offer(frames []*frame) {
	c.mu.Lock()
	added := false
	for _, f := range frames {
		if i := slices.Index(c.topics, f.topic); i >= 0 && !c.slow {
			passed := i < c.cursor.topic || i == c.cursor.topic && f.slot < c.cursor.slot
			added = c.enqueue(f, passed) || added
		}
	}
	c.mu.Unlock()
	if !added {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// enqueue puts a frame into the queue. A walk that has not passed its slot will come by; but when
// an older frame of the entry waits, which was in another slot then, this one replaces it.
func (c *client) enqueue(f *frame, passed bool) bool {
	it := queuedFrame{frame: f}
	if !allowsAny(c.allows, f.scopes) {
		if !allowsAny(c.allows, f.previousScopes) {
			return false
		}
		it.removal = true
	}
	id := entryID{f.topic.name, f.key}
	older, queued := c.queueIndex[id]
	if !passed && !queued {
		return false
	}
	if queued {
		c.pendingBytes -= c.queue[older].frame.cost()
		c.queue[older] = queuedFrame{}
		c.hub.counters.coalesced.Add(1)
	}
	c.queueIndex[id] = len(c.queue)
	c.queue = append(c.queue, it)
	if c.pendingBytes += f.cost(); c.pendingBytes > MaxPendingBytes {
		c.slow, c.queue, c.queueIndex = true, nil, nil
		return true
	}
	if len(c.queue) > 2*len(c.queueIndex)+smallQueueSize {
		c.compact()
	}
	return true
}

// compact closes the holes, which else would grow in number as long as one entry changes.
func (c *client) compact() {
	c.queue = slices.DeleteFunc(c.queue, func(it queuedFrame) bool { return it.frame == nil })
	for i, it := range c.queue {
		c.queueIndex[entryID{it.frame.topic.name, it.frame.key}] = i
	}
}

// takeQueued has all that waits, holes included, and what it costs; it is the client's until it says
// that it is written.
func (c *client) takeQueued() (batch []queuedFrame, cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, 0
	}
	batch, c.queue, c.spareQueue = c.queue, c.spareQueue, nil
	if len(c.queueIndex) > smallQueueSize {
		c.queueIndex = map[entryID]int{}
	}
	clear(c.queueIndex)
	return batch, c.pendingBytes
}

func (c *client) markWritten(batch []queuedFrame, cost int) {
	clear(batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pendingBytes -= cost
	if cap(batch) <= 2*smallQueueSize {
		c.spareQueue = batch[:0]
	}
}

func (c *client) isSlow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}
