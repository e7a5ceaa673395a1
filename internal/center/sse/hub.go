package sse

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// What is kept in memory, in bytes where nothing else is said.
const (
	// MaxBodyBytes is the largest body of a change.
	MaxBodyBytes = 512 << 10
	// MaxPendingBytes is what may wait for one client, whatever it waits for.
	MaxPendingBytes = 1 << 20
	// writeBufferSize is the most that is gathered into one write.
	writeBufferSize = 64 << 10
	// MaxClientBytes is what one client can cost the hub at most, beside what net/http and the
	// kernel hold for its connection: what waits for it, the part of a snapshot that is being
	// sent, and one write. A client that keeps up costs next to nothing of it.
	MaxClientBytes = MaxPendingBytes + MaxBodyBytes + writeBufferSize
	// The ring of a topic fits into the queue of a client, so whom it reaches can be resumed.
	maxRingFrames = 1024
	maxRingBytes  = MaxPendingBytes / 2
	// frameOverhead is a frame's place in a queue, and the frame beside its bytes.
	frameOverhead = 256
)

// Options are settings; what is zero gets a default.
type Options struct {
	// MaxClients and MaxClientsPerUser limit the streams that are open at the same time, 4,096 and 32
	// by default, and MaxTopicsPerClient, 64, what one of them may ask for.
	MaxClients, MaxClientsPerUser, MaxTopicsPerClient int
	// HeartbeatInterval is how long a stream is silent, 15 s; Linger how long a topic stays open when
	// nobody needs it, 1 min; WriteTimeout how long one write may take, 10 s.
	HeartbeatInterval, TopicIdleTimeout, WriteTimeout time.Duration
}

// Hub holds the entries of open topics and the clients that follow them.
type Hub struct {
	source  Source
	clock   clock.WithTicker
	options Options
	// replica tells the numbers of this hub from those of any other.
	replica  string
	counters counters
	buffers  sync.Pool
	// done is closed when the hub ends, and serving are the streams that have not yet.
	done    chan struct{}
	serving sync.WaitGroup

	// mu is one lock for all topics, so that numbers rise on every stream whatever its topics
	// are. Nobody writes to a client or calls the source while holding it.
	mu             sync.Mutex
	sequence       uint64
	topics         map[string]*topic
	clientCount    int
	streamsPerUser map[string]int
	closed         bool
}

// New makes a hub. Its Run ends it.
func New(source Source, c clock.WithTicker, o Options) *Hub {
	o.MaxClients = cmp.Or(o.MaxClients, 4096)
	o.MaxClientsPerUser = cmp.Or(o.MaxClientsPerUser, 32)
	o.MaxTopicsPerClient = cmp.Or(o.MaxTopicsPerClient, 64)
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, 15*time.Second)
	o.TopicIdleTimeout = cmp.Or(o.TopicIdleTimeout, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	return &Hub{
		source: source, clock: c, options: o, replica: rand.Text()[:12],
		buffers: sync.Pool{New: func() any { return new([writeBufferSize]byte) }},
		done:    make(chan struct{}), topics: map[string]*topic{}, streamsPerUser: map[string]int{},
	}
}

// Run closes topics that nobody needs, until the context ends. Then it tells all clients to
// come again, waits for the last stream to end, and closes all topics.
func (h *Hub) Run(ctx context.Context) {
	tick := h.clock.NewTicker(h.options.TopicIdleTimeout / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			h.closeIdleTopics(h.options.TopicIdleTimeout)
			continue
		case <-ctx.Done():
		}
		break
	}
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	close(h.done)
	h.serving.Wait()
	h.closeIdleTopics(0)
}

// Publish sends changes to all who follow their topics and may see them; they arrive
// together. Changes of topics that are not open are dropped. It waits for nobody. The error
// says which changes could not be sent; the others are.
func (h *Hub) Publish(changes ...Change) error {
	drafts, errs := make([]*frame, 0, len(changes)), []error(nil)
	for i, t := range h.topicsFor(changes) {
		if t == nil {
			continue
		}
		f, err := h.newFrame(t, changes[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		drafts = append(drafts, f)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.sequence + 1
	frames := drafts[:0]
	for _, f := range drafts {
		if !f.topic.closing && h.commit(f) {
			frames = append(frames, f)
		}
	}
	for _, f := range frames {
		for c := range f.topic.clients {
			// A client may follow several of the topics and gets everything at its first.
			if c.lastOffered < first {
				c.lastOffered = h.sequence
				c.offer(frames)
			}
		}
	}
	return errors.Join(errs...)
}

// topicsFor has the topic of each change, nil if it is not open: nothing is encoded for nobody.
func (h *Hub) topicsFor(changes []Change) []*topic {
	found := make([]*topic, len(changes))
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		if t := h.topics[changes[i].Topic]; t != nil && !t.closing {
			found[i] = t
		}
	}
	return found
}

// ErrClosed says that the hub has ended: another replica serves.
var ErrClosed = errors.New("the center is shutting down: connect again")

// LimitError says that one stream more, or one that large, is too much.
type LimitError struct {
	Limit int
	// User is whose streams are too many; empty if it is those of all.
	User string
	// Topics are too many of one stream; then it is not about streams.
	Topics int
}

func (e *LimitError) Error() string {
	switch {
	case e.Topics > 0:
		return fmt.Sprintf("%d topics for one stream, of at most %d: ask for fewer", e.Topics, e.Limit)
	case e.User != "":
		return fmt.Sprintf("user %s has %d streams open, which is the limit: close one", e.User, e.Limit)
	}
	return fmt.Sprintf("%d streams are open, which is the limit: try again later, or run more replicas of the center", e.Limit)
}

// admit counts a client in.
func (h *Hub) admit(s Subscription) error {
	if n := len(s.Topics); n > h.options.MaxTopicsPerClient {
		return &LimitError{Limit: h.options.MaxTopicsPerClient, Topics: n}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return ErrClosed
	case h.clientCount >= h.options.MaxClients:
		return &LimitError{Limit: h.options.MaxClients}
	case h.streamsPerUser[s.User] >= h.options.MaxClientsPerUser:
		return &LimitError{Limit: h.options.MaxClientsPerUser, User: s.User}
	}
	h.clientCount++
	h.streamsPerUser[s.User]++
	h.serving.Add(1)
	return nil
}

// release counts it out again.
func (h *Hub) release(s Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clientCount--
	if h.streamsPerUser[s.User]--; h.streamsPerUser[s.User] == 0 {
		delete(h.streamsPerUser, s.User)
	}
	h.serving.Done()
}
