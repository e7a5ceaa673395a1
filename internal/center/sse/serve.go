package sse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/utils/clock"
)

// Subscription is what a client asks for, and who it is.
type Subscription struct {
	Topics []string
	// User is whose stream it is, for the limit per user.
	User string
	// Allows says whether the user has a right now. It is asked for every frame while others
	// wait, so it is quick and does not call the hub.
	Allows func(Scope) bool
	// AccessChanged receives when Sees would answer otherwise than before. The client is sent
	// everything anew, so that what it may no longer see disappears.
	AccessChanged <-chan struct{}
	// Revoked is closed when the user is no longer known to be who they are. Nothing is sent
	// from then on.
	Revoked <-chan struct{}
	// ForceSnapshot asks for a snapshot in any case. Who cannot say that the rights are those under
	// which the client's last stream ended sets it: a resumed stream carries on with what the
	// client has.
	ForceSnapshot bool
}

// Serve sends a stream until the request ends, the subscription is revoked, the client is too
// slow or the hub ends. An error is returned only if nothing was written, so the caller can
// answer with it: a [LimitError], [ErrClosed], what the source said, or the end of the
// context. How streams end is in [Stats].
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, s Subscription) error {
	if err := h.admit(s); err != nil {
		return err
	}
	defer h.release(s)
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

// stream writes what waits for a client.
type stream struct {
	hub                    *Hub
	client                 *client
	accessChanged, revoked <-chan struct{}
	out                    *writer
	heartbeat              clock.Timer
	// snapshotting says that a snapshot is under way, and parts how many parts of it are sent.
	snapshotting bool
	partsSent    int
	frames       []*frame
}

func (st *stream) run(ctx context.Context) {
	st.heartbeat = st.hub.clock.NewTimer(st.hub.options.HeartbeatInterval)
	defer st.heartbeat.Stop()
	defer st.out.release()
	st.out.start()
	// Clients that lost the same hub do not all come to the next one in the same moment.
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

// shouldEnd says whether the stream ends, and tells the client why if it is the hub's wish. Nothing
// that waits is written after that.
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
	// Without an id it comes back for a snapshot.
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

// checkAccessChange starts over if rights have changed, before anything is sent by the old ones.
func (st *stream) checkAccessChange() {
	select {
	case _, open := <-st.accessChanged:
		st.handleAccessChange(open)
	default:
	}
}

func (st *stream) handleAccessChange(open bool) {
	if !open {
		// Nobody will say more.
		st.accessChanged = nil
		return
	}
	st.client.restartSnapshot()
	st.snapshotting, st.partsSent = true, 0
	// The empty id: a client that is cut off before the snapshot is complete has nothing from
	// which it could be resumed.
	st.out.addf("id:\nevent: %s\ndata: {\"reason\":\"rights\"}\n\n", eventReset)
}

// wait returns when there may be something to do.
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

// writeSnapshotPart writes the next part of a snapshot. Only the last one has an id, that of the moment
// at which the walk began: all later frames of what it had passed follow, and what it came by
// later is newer than the number says, which does no harm.
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

// writeDeltas writes all that waits at once; false if nothing does.
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
