package sse

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Stats contains counters since the start of the hub, and the current clients and topics.
type Stats struct {
	// Clients is the number of connected clients.
	Clients int `json:"clients"`
	// Frames counts frames created from changes. Encodes counts encoded bodies.
	Frames  uint64 `json:"frames"`
	Encodes uint64 `json:"encodes"`
	// Deliveries counts frames written to clients. Writes counts the writes. Coalesced counts queued frames
	// that were replaced by a newer frame of the same key.
	Deliveries uint64 `json:"deliveries"`
	Writes     uint64 `json:"writes"`
	Coalesced  uint64 `json:"coalesced"`
	// Snapshots counts started snapshots. Resets counts the ones caused by changed permissions. Resumed
	// counts clients that reconnected without a snapshot.
	Snapshots uint64 `json:"snapshots"`
	Resets    uint64 `json:"resets"`
	Resumed   uint64 `json:"resumed"`
	// ClosedSlow counts clients that were disconnected because they read too slowly.
	ClosedSlow uint64 `json:"closedSlow"`
	// Topics are the open topics, sorted by name.
	Topics []TopicStats `json:"topics"`
}

// TopicStats contains the current state of one topic.
type TopicStats struct {
	Topic       string `json:"topic"`
	Subscribers int    `json:"subscribers"`
	Entries     int    `json:"entries"`
	// RingFrames is the number of frames stored for resuming clients.
	RingFrames int `json:"bufferedFrames"`
}

type counters struct {
	frames, encodes, deliveries, writes, coalesced, snapshots, resets, resumed, closedSlow atomic.Uint64
}

// Stats returns the statistics of the hub.
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
