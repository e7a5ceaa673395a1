package hub

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
	sees   func(Scope) bool
	topics []*topic
	wake   chan struct{}

	// Guarded by the lock of the hub: the newest number that was offered, the next slot of the
	// walk, and the number at which the walk began.
	offered uint64
	at      position
	from    uint64

	// mu guards the queue; it is taken after the lock of the hub and never before it.
	mu sync.Mutex
	// queue is in the order of numbers, with holes where a newer frame of the entry came;
	// where is the place of each entry in it.
	queue []item
	where map[entryID]int
	spare []item
	// bytes are the costs of the queue and of what is being written.
	bytes int
	// slow says that it was too much, and that the stream is to end.
	slow bool
}

// position is a slot of one of the client's topics.
type position struct{ topic, slot int }

type entryID struct{ topic, key string }

// item is a frame for one client: gone if it could see the entry and may no longer.
type item struct {
	frame *frame
	gone  bool
}

// smallQueue is what a client keeps room for when it has nothing to wait for.
const smallQueue = 256

func (h *Hub) newClient(s Subscription, topics []*topic) *client {
	sees := s.Sees
	if sees == nil {
		sees = func(Scope) bool { return false }
	}
	return &client{hub: h, sees: sees, topics: topics, wake: make(chan struct{}, 1), where: map[entryID]int{}}
}

// attach lets a client take part, from the id on that it saw last if that is possible. It says
// whether it is; otherwise the client is at the beginning of a walk.
func (h *Hub) attach(c *client, lastID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range c.topics {
		t.subs[c] = struct{}{}
	}
	if n, ok := h.lastNumber(lastID); ok && c.resume(n) {
		h.counts.resumed.Add(1)
		return true
	}
	c.restart()
	return false
}

func (h *Hub) detach(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range c.topics {
		delete(t.subs, c)
	}
}

// resume queues what the client missed; false if not all of that is known any more.
func (c *client) resume(after uint64) bool {
	if after > c.hub.number {
		return false
	}
	var all []*frame
	for _, t := range c.topics {
		frames, ok := t.missed(after)
		if !ok {
			return false
		}
		all = append(all, frames...)
	}
	slices.SortFunc(all, func(a, b *frame) int { return cmp.Compare(a.number, b.number) })
	c.at = position{topic: len(c.topics)}
	c.offer(all)
	return !c.slow
}

// restart forgets what waits and goes back to the beginning of a walk.
func (c *client) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.where, c.bytes, c.slow = nil, map[entryID]int{}, 0, false
	c.at, c.from = position{}, c.hub.number
	c.hub.counts.snapshots.Add(1)
}

// reset is restart for a client that has been attached for a while.
func (c *client) reset() {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.restart()
	c.hub.counts.resets.Add(1)
}

// part is the next part of a walk, and whether it is the last one. It looks at few slots at a
// time, since everybody waits for the lock meanwhile.
func (c *client) part(into []*frame) (frames []*frame, complete bool) {
	const slots = 256
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	size := 0
	for range slots {
		for c.at.topic < len(c.topics) && c.at.slot >= len(c.topics[c.at.topic].slots) {
			c.at = position{topic: c.at.topic + 1}
		}
		if c.at.topic == len(c.topics) {
			return into, true
		}
		f := c.topics[c.at.topic].slots[c.at.slot]
		if f != nil && mayOne(c.sees, f.scopes) {
			if size += len(f.data); size > chunk && len(into) > 0 {
				return into, false
			}
			into = append(into, f)
		}
		c.at.slot++
	}
	return into, false
}

// offer queues the frames that the client follows and may see. The lock of the hub is held.
func (c *client) offer(frames []*frame) {
	c.mu.Lock()
	added := false
	for _, f := range frames {
		if i := slices.Index(c.topics, f.topic); i >= 0 && !c.slow {
			passed := i < c.at.topic || i == c.at.topic && f.slot < c.at.slot
			added = c.add(f, passed) || added
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

// add puts a frame into the queue. A walk that has not passed its slot will come by; but when
// an older frame of the entry waits, which was in another slot then, this one replaces it.
func (c *client) add(f *frame, passed bool) bool {
	it := item{frame: f}
	if !mayOne(c.sees, f.scopes) {
		if !mayOne(c.sees, f.was) {
			return false
		}
		it.gone = true
	}
	id := entryID{f.topic.name, f.key}
	older, waits := c.where[id]
	if !passed && !waits {
		return false
	}
	if waits {
		c.bytes -= c.queue[older].frame.cost()
		c.queue[older] = item{}
		c.hub.counts.coalesced.Add(1)
	}
	c.where[id] = len(c.queue)
	c.queue = append(c.queue, it)
	if c.bytes += f.cost(); c.bytes > MaxPending {
		c.slow, c.queue, c.where = true, nil, nil
		return true
	}
	if len(c.queue) > 2*len(c.where)+smallQueue {
		c.compact()
	}
	return true
}

// compact closes the holes, which else would grow in number as long as one entry changes.
func (c *client) compact() {
	c.queue = slices.DeleteFunc(c.queue, func(it item) bool { return it.frame == nil })
	for i, it := range c.queue {
		c.where[entryID{it.frame.topic.name, it.frame.key}] = i
	}
}

// take has all that waits, holes included, and what it costs; it is the client's until it says
// that it is written.
func (c *client) take() (batch []item, cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, 0
	}
	batch, c.queue, c.spare = c.queue, c.spare, nil
	if len(c.where) > smallQueue {
		c.where = map[entryID]int{}
	}
	clear(c.where)
	return batch, c.bytes
}

func (c *client) written(batch []item, cost int) {
	clear(batch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= cost
	if cap(batch) <= 2*smallQueue {
		c.spare = batch[:0]
	}
}

func (c *client) isSlow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}
