package hub

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
	// MaxBody is the largest body of a change.
	MaxBody = 512 << 10
	// MaxPending is what may wait for one client, whatever it waits for.
	MaxPending = 1 << 20
	// chunk is the most that is gathered into one write.
	chunk = 64 << 10
	// MaxClient is what one client can cost the hub at most, beside what net/http and the
	// kernel hold for its connection: what waits for it, the part of a snapshot that is being
	// sent, and one write. A client that keeps up costs next to nothing of it.
	MaxClient = MaxPending + MaxBody + chunk
	// The ring of a topic fits into the queue of a client, so whom it reaches can be resumed.
	ringFrames = 1024
	ringBytes  = MaxPending / 2
	// frameOverhead is a frame's place in a queue, and the frame beside its bytes.
	frameOverhead = 256
)

// Options are settings; what is zero gets a default.
type Options struct {
	// Clients and ClientsPerUser limit the streams that are open at the same time, 4,096 and 32
	// by default, and TopicsPerClient, 64, what one of them may ask for.
	Clients, ClientsPerUser, TopicsPerClient int
	// Heartbeat is how long a stream is silent, 15 s; Linger how long a topic stays open when
	// nobody needs it, 1 min; WriteTimeout how long one write may take, 10 s.
	Heartbeat, Linger, WriteTimeout time.Duration
}

// Hub holds the entries of open topics and the clients that follow them.
type Hub struct {
	source  Source
	clock   clock.WithTicker
	options Options
	// replica tells the numbers of this hub from those of any other.
	replica string
	counts  counts
	buffers sync.Pool
	// done is closed when the hub ends, and serving are the streams that have not yet.
	done    chan struct{}
	serving sync.WaitGroup

	// mu is one lock for all topics, so that numbers rise on every stream whatever its topics
	// are. Nobody writes to a client or calls the source while holding it.
	mu      sync.Mutex
	number  uint64
	topics  map[string]*topic
	clients int
	users   map[string]int
	closed  bool
}

// New makes a hub. Its Run ends it.
func New(source Source, c clock.WithTicker, o Options) *Hub {
	o.Clients = cmp.Or(o.Clients, 4096)
	o.ClientsPerUser = cmp.Or(o.ClientsPerUser, 32)
	o.TopicsPerClient = cmp.Or(o.TopicsPerClient, 64)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.Linger = cmp.Or(o.Linger, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	return &Hub{
		source: source, clock: c, options: o, replica: rand.Text()[:12],
		buffers: sync.Pool{New: func() any { return new([chunk]byte) }},
		done:    make(chan struct{}), topics: map[string]*topic{}, users: map[string]int{},
	}
}

// Run closes topics that nobody needs, until the context ends. Then it tells all clients to
// come again, waits for the last stream to end, and closes all topics.
func (h *Hub) Run(ctx context.Context) {
	tick := h.clock.NewTicker(h.options.Linger / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			h.sweep(h.options.Linger)
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
	h.sweep(0)
}

// Publish sends changes to all who follow their topics and may see them; they arrive
// together. Changes of topics that are not open are dropped. It waits for nobody. The error
// says which changes could not be sent; the others are.
func (h *Hub) Publish(changes ...Change) error {
	drafts, errs := make([]*frame, 0, len(changes)), []error(nil)
	for i, t := range h.opened(changes) {
		if t == nil {
			continue
		}
		f, err := h.draft(t, changes[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		drafts = append(drafts, f)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.number + 1
	frames := drafts[:0]
	for _, f := range drafts {
		if !f.topic.closing && h.take(f) {
			frames = append(frames, f)
		}
	}
	for _, f := range frames {
		for c := range f.topic.subs {
			// A client may follow several of the topics and gets everything at its first.
			if c.offered < first {
				c.offered = h.number
				c.offer(frames)
			}
		}
	}
	return errors.Join(errs...)
}

// opened has the topic of each change, nil if it is not open: nothing is encoded for nobody.
func (h *Hub) opened(changes []Change) []*topic {
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
	if n := len(s.Topics); n > h.options.TopicsPerClient {
		return &LimitError{Limit: h.options.TopicsPerClient, Topics: n}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return ErrClosed
	case h.clients >= h.options.Clients:
		return &LimitError{Limit: h.options.Clients}
	case h.users[s.User] >= h.options.ClientsPerUser:
		return &LimitError{Limit: h.options.ClientsPerUser, User: s.User}
	}
	h.clients++
	h.users[s.User]++
	h.serving.Add(1)
	return nil
}

// dismiss counts it out again.
func (h *Hub) dismiss(s Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients--
	if h.users[s.User]--; h.users[s.User] == 0 {
		delete(h.users, s.User)
	}
	h.serving.Done()
}
