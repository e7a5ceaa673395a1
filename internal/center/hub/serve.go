package hub

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
	// Sees says whether the user has a right now. It is asked for every frame while others
	// wait, so it is quick and does not call the hub.
	Sees func(Scope) bool
	// Changed receives when Sees would answer otherwise than before. The client is sent
	// everything anew, so that what it may no longer see disappears.
	Changed <-chan struct{}
	// Revoked is closed when the user is no longer known to be who they are. Nothing is sent
	// from then on.
	Revoked <-chan struct{}
	// Fresh asks for a snapshot in any case. Who cannot say that the rights are those under
	// which the client's last stream ended sets it: a resumed stream carries on with what the
	// client has.
	Fresh bool
}

// Serve sends a stream until the request ends, the subscription is revoked, the client is too
// slow or the hub ends. An error is returned only if nothing was written, so the caller can
// answer with it: a [LimitError], [ErrClosed], what the source said, or the end of the
// context. How streams end is in [Stats].
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, s Subscription) error {
	if err := h.admit(s); err != nil {
		return err
	}
	defer h.dismiss(s)
	var topics []*topic
	defer func() {
		for _, t := range topics {
			h.leave(t)
		}
	}()
	asked := map[string]bool{}
	for _, name := range s.Topics {
		if asked[name] {
			continue
		}
		asked[name] = true
		t, err := h.join(r.Context(), name)
		if err != nil {
			return err
		}
		topics = append(topics, t)
	}
	lastID := r.Header.Get("Last-Event-ID")
	if s.Fresh {
		lastID = ""
	}
	out, err := h.newWriter(w)
	if err != nil {
		return err
	}
	c := h.newClient(s, topics)
	st := &stream{hub: h, client: c, changed: s.Changed, revoked: s.Revoked, out: out}
	st.walking = !h.attach(c, lastID)
	defer h.detach(c)
	st.run(r.Context())
	return nil
}

// stream writes what waits for a client.
type stream struct {
	hub              *Hub
	client           *client
	changed, revoked <-chan struct{}
	out              *writer
	beat             clock.Timer
	// walking says that a snapshot is under way, and parts how many parts of it are sent.
	walking bool
	parts   int
	frames  []*frame
}

func (st *stream) run(ctx context.Context) {
	st.beat = st.hub.clock.NewTimer(st.hub.options.Heartbeat)
	defer st.beat.Stop()
	defer st.out.release()
	st.out.start()
	// Clients that lost the same hub do not all come to the next one in the same moment.
	st.out.addf("retry: %d\n\n", retry())
	for !st.over(ctx) {
		st.listen()
		wrote := true
		if st.walking {
			st.snapshot()
		} else {
			wrote = st.deltas()
		}
		if wrote {
			continue
		}
		st.flush()
		st.wait(ctx)
	}
	if st.out.expired || st.client.isSlow() {
		st.hub.counts.slow.Add(1)
	}
}

func retry() int64 { return (time.Second + rand.N(2*time.Second)).Milliseconds() }

// over says whether the stream ends, and tells the client why if it is the hub's wish. Nothing
// that waits is written after that.
func (st *stream) over(ctx context.Context) bool {
	if ctx.Err() != nil || st.out.err != nil || isClosed(st.revoked) {
		return true
	}
	if isClosed(st.hub.done) {
		st.out.addf("retry: %d\nevent: %s\ndata: {\"reason\":\"shutdown\"}\n\n", retry(), eventAgain)
		st.flush()
		return true
	}
	if !st.client.isSlow() {
		return false
	}
	// Without an id it comes back for a snapshot.
	st.out.addf("id:\nretry: %d\nevent: %s\ndata: {\"reason\":\"slow\"}\n\n", retry(), eventAgain)
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

// listen starts over if rights have changed, before anything is sent by the old ones.
func (st *stream) listen() {
	select {
	case _, open := <-st.changed:
		st.rights(open)
	default:
	}
}

func (st *stream) rights(open bool) {
	if !open {
		// Nobody will say more.
		st.changed = nil
		return
	}
	st.client.reset()
	st.walking, st.parts = true, 0
	// The empty id: a client that is cut off before the snapshot is complete has nothing from
	// which it could be resumed.
	st.out.addf("id:\nevent: %s\ndata: {\"reason\":\"rights\"}\n\n", eventReset)
}

// wait returns when there may be something to do.
func (st *stream) wait(ctx context.Context) {
	select {
	case <-st.client.wake:
	case _, open := <-st.changed:
		st.rights(open)
	case <-st.beat.C():
		st.out.addString(":\n\n")
		st.flush()
	case <-st.revoked:
	case <-st.hub.done:
	case <-ctx.Done():
	}
}

// snapshot writes the next part of a snapshot. Only the last one has an id, that of the moment
// at which the walk began: all later frames of what it had passed follow, and what it came by
// later is newer than the number says, which does no harm.
func (st *stream) snapshot() {
	frames, complete := st.client.part(st.frames[:0])
	st.frames = frames
	if len(frames) == 0 && !complete {
		return
	}
	id := ""
	if complete {
		id = fmt.Sprintf(" %s-%d", st.hub.replica, st.client.from)
	}
	st.out.addf("id:%s\nevent: %s\ndata: {\"part\":%d,\"complete\":%t,\"entries\":[", id, eventSnapshot, st.parts, complete)
	for i, f := range frames {
		if i > 0 {
			st.out.addString(",")
		}
		st.out.add(f.data)
	}
	st.out.addString("]}\n\n")
	st.parts++
	st.hub.counts.deliveries.Add(uint64(len(frames)))
	clear(frames)
	if complete {
		st.walking, st.frames = false, nil
		st.flush()
	}
}

// deltas writes all that waits at once; false if nothing does.
func (st *stream) deltas() bool {
	batch, cost := st.client.take()
	if batch == nil {
		return false
	}
	n := uint64(0)
	for _, it := range batch {
		if it.frame == nil {
			continue
		}
		n++
		st.out.add(it.frame.head)
		if it.gone {
			st.out.add(it.frame.gone)
			continue
		}
		st.out.add(it.frame.rest)
	}
	st.flush()
	st.client.written(batch, cost)
	st.hub.counts.deliveries.Add(n)
	return true
}

func (st *stream) flush() {
	if st.out.flush() {
		st.beat.Reset(st.hub.options.Heartbeat)
		st.hub.counts.writes.Add(1)
	}
}
