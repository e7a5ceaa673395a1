package sse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

// Subscription is the request of a client.
type Subscription struct {
	Topics []string
	// User and Tenant are the names for the limits per user and per tenant.
	User, Tenant string
	// Allows reports whether the user currently has a permission. It is called for every frame with locks
	// held, so it must be fast and must not call the hub.
	Allows func(Scope) bool
	// AccessChanged receives when results of Allows have changed. The client then gets a new snapshot, which
	// removes entries that it is no longer allowed to see.
	AccessChanged <-chan struct{}
	// Revoked is closed when the user is no longer authenticated. Nothing is sent after that.
	Revoked <-chan struct{}
	// ForceSnapshot disables resuming. Set it unless the permissions are the same as when the client's last
	// stream ended, because a resumed client keeps its entries.
	ForceSnapshot bool
}

// Serve sends a stream until the request ends, the subscription is revoked, the client is too slow or the hub
// ends. It returns an error only if nothing was written, so that the caller can write an error response: a
// [LimitError], [ErrClosed], an error of the source or of the context. [Stats] counts how streams end.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, s Subscription) error {
	release, err := h.admit(s)
	if err != nil {
		return err
	}
	defer release()
	var topics []*topic
	defer func() {
		for _, t := range topics {
			h.leaveTopic(t)
		}
	}()
	seen := map[string]bool{}
	for _, name := range s.Topics {
		if seen[name] {
			continue
		}
		seen[name] = true
		t, err := h.joinTopic(r.Context(), name)
		if err != nil {
			return err
		}
		topics = append(topics, t)
	}
	lastID := r.Header.Get("Last-Event-ID")
	if s.ForceSnapshot {
		lastID = ""
	}
	out, err := h.newWriter(w)
	if err != nil {
		return err
	}
	c := h.newClient(s, topics)
	st := &stream{hub: h, client: c, accessChanged: s.AccessChanged, revoked: s.Revoked, out: out}
	st.snapshotting = !h.attach(c, lastID)
	defer h.detach(c)
	st.run(r.Context())
	return nil
}

// stream writes the frames of a client.
type stream struct {
	hub                    *Hub
	client                 *client
	accessChanged, revoked <-chan struct{}
	out                    *writer
	heartbeat              clock.Timer
	// snapshotting means that a snapshot is in progress. partsSent is the number of its sent parts.
	snapshotting bool
	partsSent    int
	frames       []*frame
}

func (st *stream) run(ctx context.Context) {
	st.heartbeat = st.hub.clock.NewTimer(st.hub.options.HeartbeatInterval)
	defer st.heartbeat.Stop()
	defer st.out.release()
	st.out.start()
	// The retry delay has jitter, so that clients of a stopped replica do not reconnect at the same time.
	st.out.addf("retry: %d\n\n", retryMillis())
	for !st.shouldEnd(ctx) {
		st.checkAccessChange()
		wrote := true
		if st.snapshotting {
			st.writeSnapshotPart()
		} else {
			wrote = st.writeDeltas()
		}
		if wrote {
			continue
		}
		st.flush()
		st.wait(ctx)
	}
	if st.out.timedOut || st.client.isSlow() {
		st.hub.counters.closedSlow.Add(1)
	}
}

func retryMillis() int64 { return (time.Second + rand.N(2*time.Second)).Milliseconds() }

// shouldEnd reports whether the stream must end. It sends a reconnect event if the hub ends the stream.
// Pending frames are dropped.
func (st *stream) shouldEnd(ctx context.Context) bool {
	if ctx.Err() != nil || st.out.err != nil || isClosed(st.revoked) {
		return true
	}
	if isClosed(st.hub.done) {
		st.out.addf("retry: %d\nevent: %s\ndata: {\"reason\":\"shutdown\"}\n\n", retryMillis(), eventReconnect)
		st.flush()
		return true
	}
	if !st.client.isSlow() {
		return false
	}
	// The empty id makes the client reconnect for a snapshot.
	st.out.addf("id:\nretry: %d\nevent: %s\ndata: {\"reason\":\"slow\"}\n\n", retryMillis(), eventReconnect)
	st.flush()
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// checkAccessChange restarts the snapshot if permissions have changed, before more frames are sent.
func (st *stream) checkAccessChange() {
	select {
	case _, open := <-st.accessChanged:
		st.handleAccessChange(open)
	default:
	}
}

func (st *stream) handleAccessChange(open bool) {
	if !open {
		st.accessChanged = nil // a nil channel never receives
		return
	}
	st.client.restartSnapshot()
	st.snapshotting, st.partsSent = true, 0
	// The empty id prevents a client that disconnects before the snapshot is complete from resuming.
	st.out.addf("id:\nevent: %s\ndata: {\"reason\":\"permissions\"}\n\n", eventReset)
}

// wait blocks until the stream has work to do.
func (st *stream) wait(ctx context.Context) {
	select {
	case <-st.client.wake:
	case _, open := <-st.accessChanged:
		st.handleAccessChange(open)
	case <-st.heartbeat.C():
		st.out.addString(":\n\n")
		st.flush()
	case <-st.revoked:
	case <-st.hub.done:
	case <-ctx.Done():
	}
}

// writeSnapshotPart writes the next part of a snapshot. Only the last part has an id: the sequence number at
// which the walk began. Frames of slots that the walk had already passed follow. Entries of later slots may be
// newer than the id; receiving them twice is harmless.
func (st *stream) writeSnapshotPart() {
	frames, complete := st.client.nextPart(st.frames[:0])
	st.frames = frames
	if len(frames) == 0 && !complete {
		return
	}
	id := ""
	if complete {
		id = fmt.Sprintf(" %s-%d", st.hub.replica, st.client.snapshotSequence)
	}
	st.out.addf("id:%s\nevent: %s\ndata: {\"part\":%d,\"complete\":%t,\"entries\":[", id, eventSnapshot, st.partsSent, complete)
	for i, f := range frames {
		if i > 0 {
			st.out.addString(",")
		}
		st.out.add(f.data)
	}
	st.out.addString("]}\n\n")
	st.partsSent++
	st.hub.counters.deliveries.Add(uint64(len(frames)))
	clear(frames)
	if complete {
		st.snapshotting, st.frames = false, nil
		st.flush()
	}
}

// writeDeltas writes all queued frames. It returns false if there are none.
func (st *stream) writeDeltas() bool {
	batch, cost := st.client.takeQueued()
	if batch == nil {
		return false
	}
	n := uint64(0)
	for _, it := range batch {
		if it.frame == nil {
			continue
		}
		n++
		st.out.add(it.frame.idLine)
		if it.removal {
			st.out.add(it.frame.removalPayload)
			continue
		}
		st.out.add(it.frame.payload)
	}
	st.flush()
	st.client.markWritten(batch, cost)
	st.hub.counters.deliveries.Add(n)
	return true
}

func (st *stream) flush() {
	if st.out.flush() {
		st.heartbeat.Reset(st.hub.options.HeartbeatInterval)
		st.hub.counters.writes.Add(1)
	}
}
