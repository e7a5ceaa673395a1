package sse

import (
	"cmp"
	"slices"
	"sync"
)

// client is the state of one stream.
//
//	attach ─► walking: snapshot in parts ─► following: deltas ─► detach
//	             ▲                              │
//	             └──────── access changed ──────┘
//
// A snapshot walks over the slots of the topics. New frames of slots that the walk has passed are queued
// and sent after the snapshot. Frames of later slots are not queued, because the walk will reach them. So a
// snapshot of any size is exact without being copied and without blocking other clients.
type client struct {
	hub    *Hub
	allows func(Scope) bool
	topics []*topic
	wake   chan struct{}

	// Guarded by the lock of the hub: the newest sequence number that was offered, the next slot of the
	// walk, and the sequence number at which the walk began.
	lastOffered      uint64
	cursor           position
	snapshotSequence uint64

	// mu guards the queue. Lock order: the lock of the hub first, then mu.
	mu sync.Mutex
	// queue is sorted by sequence number. Frames that were replaced by a newer frame of the same entry leave
	// holes. queueIndex maps entries to their position.
	queue      []queuedFrame
	queueIndex map[entryID]int
	spareQueue []queuedFrame
	// pendingBytes is the cost of queued frames and of frames that are being written.
	pendingBytes int
	// slow means that pendingBytes exceeded its limit and that the stream must end.
	slow bool
}

// position is a slot of one of the client's topics.
type position struct{ topic, slot int }

type entryID struct{ topic, key string }

// queuedFrame is a frame for one client. removal means that the client is no longer allowed to see the entry.
type queuedFrame struct {
	frame   *frame
	removal bool
}

// smallQueueSize is the queue capacity that an idle client keeps.
const smallQueueSize = 256

func (h *Hub) newClient(s Subscription, topics []*topic) *client {
	allows := s.Allows
	if allows == nil {
		allows = func(Scope) bool { return false }
	}
	return &client{hub: h, allows: allows, topics: topics, wake: make(chan struct{}, 1), queueIndex: map[entryID]int{}}
}

// attach subscribes a client to its topics. It returns true if the client was resumed after lastID; otherwise
// the client starts with a snapshot.
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

// resume queues the frames after a sequence number. It returns false if some of them are no longer stored.
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

// startSnapshot clears the queue and restarts the walk.
func (c *client) startSnapshot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.queueIndex, c.pendingBytes, c.slow = nil, map[entryID]int{}, 0, false
	c.cursor, c.snapshotSequence = position{}, c.hub.sequence
	c.hub.counters.snapshots.Add(1)
}

// restartSnapshot is startSnapshot for an attached client.
func (c *client) restartSnapshot() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.startSnapshot()
	c.hub.counters.resets.Add(1)
}

// nextPart returns the next part of the snapshot and whether it is the last one. It visits only a few slots
// per call, because it holds the lock of the hub.
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

// offer queues the frames of subscribed topics that the client is allowed to see. The caller holds the lock
// of the hub.
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

// enqueue queues a frame unless the walk will still reach its slot. If an older frame of the entry, from
// another slot, is queued, the new frame replaces it.
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

// compact removes the holes, which would otherwise accumulate while an entry keeps changing.
func (c *client) compact() {
	c.queue = slices.DeleteFunc(c.queue, func(it queuedFrame) bool { return it.frame == nil })
	for i, it := range c.queue {
		c.queueIndex[entryID{it.frame.topic.name, it.frame.key}] = i
	}
}

// takeQueued removes and returns the queue, including holes, and its cost. The cost counts as pending until
// markWritten is called.
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
