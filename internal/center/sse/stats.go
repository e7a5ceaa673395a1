package sse

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Stats are figures since the hub began, but for those that say what is now.
type Stats struct {
	// Clients are connected now.
	Clients int `json:"clients"`
	// Frames were made of changes, for which Encodes bodies were encoded.
	Frames  uint64 `json:"frames"`
	Encodes uint64 `json:"encodes"`
	// Deliveries are frames that were written to a client, in Writes. Coalesced are those that
	// a newer one of the same key replaced before.
	Deliveries uint64 `json:"deliveries"`
	Writes     uint64 `json:"writes"`
	Coalesced  uint64 `json:"coalesced"`
	// Snapshots were begun, Resets of them because rights had changed. Resumed are clients that
	// needed none.
	Snapshots uint64 `json:"snapshots"`
	Resets    uint64 `json:"resets"`
	Resumed   uint64 `json:"resumed"`
	// ClosedSlow are clients that did not take what was sent.
	ClosedSlow uint64 `json:"closedSlow"`
	// Topics are open now, by name.
	Topics []TopicStats `json:"topics"`
}

// TopicStats are figures of one topic, now.
type TopicStats struct {
	Topic       string `json:"topic"`
	Subscribers int    `json:"subscribers"`
	Entries     int    `json:"entries"`
	// RingFrames are the frames from which a client can be resumed.
	RingFrames int `json:"ring"`
}

type counters struct {
	frames, encodes, deliveries, writes, coalesced, snapshots, resets, resumed, closedSlow atomic.Uint64
}

// Stats has the figures of the hub.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Stats{
		Clients: h.clientCount, Frames: h.counters.frames.Load(), Encodes: h.counters.encodes.Load(),
		Deliveries: h.counters.deliveries.Load(), Writes: h.counters.writes.Load(), Coalesced: h.counters.coalesced.Load(),
		Snapshots: h.counters.snapshots.Load(), Resets: h.counters.resets.Load(), Resumed: h.counters.resumed.Load(),
		ClosedSlow: h.counters.closedSlow.Load(),
	}
	for _, t := range h.topics {
		s.Topics = append(s.Topics, TopicStats{
			Topic: t.name, Subscribers: len(t.clients), Entries: len(t.index), RingFrames: len(t.ring),
		})
	}
	slices.SortFunc(s.Topics, func(a, b TopicStats) int { return cmp.Compare(a.Topic, b.Topic) })
	return s
}
