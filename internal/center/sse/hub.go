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

// Memory limits, in bytes unless noted otherwise.
const (
	// MaxBodyBytes is the maximum size of the body of a change.
	MaxBodyBytes = 512 << 10
	// MaxPendingBytes is the maximum size of the queue of one client.
	MaxPendingBytes = 1 << 20
	// writeBufferSize is the maximum size of one buffered write.
	writeBufferSize = 64 << 10
	// MaxClientBytes is the maximum memory that the hub uses for one client, in addition to the connection
	// buffers of net/http and the kernel: its queue, one part of a snapshot and one write. A client that
	// keeps up uses almost none of it.
	MaxClientBytes = MaxPendingBytes + MaxBodyBytes + writeBufferSize
	// The ring of a topic fits into the queue of a client, so that every client it covers can be resumed.
	maxRingFrames = 1024
	maxRingBytes  = MaxPendingBytes / 2
	// frameOverhead is the size of a queue entry and of a frame without its bytes.
	frameOverhead = 256
)

// Options configures a hub. A zero field means its default.
type Options struct {
	// MaxClients, MaxClientsPerUser and MaxClientsPerTenant limit the number of open streams and reservations.
	// Defaults: 4,096, 32 and 1,024. MaxTopicsPerClient limits the topics of one stream. Default: 64.
	MaxClients, MaxClientsPerUser, MaxClientsPerTenant, MaxTopicsPerClient int
	// HeartbeatInterval is the interval of heartbeats on an idle stream. Default: 15 s. TopicIdleTimeout is
	// the time after which an unused topic is closed. Default: 1 min. WriteTimeout is the timeout of one
	// write. Default: 10 s.
	HeartbeatInterval, TopicIdleTimeout, WriteTimeout time.Duration
}

// Hub holds the entries of open topics and the clients that are subscribed to them.
type Hub struct {
	source  Source
	clock   clock.WithTicker
	options Options
	// replica distinguishes the sequence numbers of this hub from the ones of other hubs.
	replica  string
	counters counters
	buffers  sync.Pool
	// done is closed when the hub ends. serving counts the open streams.
	done    chan struct{}
	serving sync.WaitGroup

	// mu is one lock for all topics, so that sequence numbers increase on every stream. It must not be held
	// while writing to a client or calling the source.
	mu          sync.Mutex
	sequence    uint64
	topics      map[string]*topic
	clientCount int
	// open counts the streams and reservations.
	open                       int
	openPerUser, openPerTenant map[string]int
	closed                     bool
}

// New returns a hub. Run must be called.
func New(source Source, c clock.WithTicker, o Options) *Hub {
	o.MaxClients = cmp.Or(o.MaxClients, 4096)
	o.MaxClientsPerUser = cmp.Or(o.MaxClientsPerUser, 32)
	o.MaxClientsPerTenant = cmp.Or(o.MaxClientsPerTenant, 1024)
	o.MaxTopicsPerClient = cmp.Or(o.MaxTopicsPerClient, 64)
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, 15*time.Second)
	o.TopicIdleTimeout = cmp.Or(o.TopicIdleTimeout, time.Minute)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	return &Hub{
		source: source, clock: c, options: o, replica: rand.Text()[:12],
		buffers: sync.Pool{New: func() any { return new([writeBufferSize]byte) }},
		done:    make(chan struct{}), topics: map[string]*topic{}, openPerUser: map[string]int{}, openPerTenant: map[string]int{},
	}
}

// Run closes unused topics until the context ends. Then it sends a reconnect event to all clients, waits for
// all streams to end and closes all topics.
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

// Publish sends changes as one batch to all clients that are subscribed to their topics and are allowed to
// see them. It drops changes of topics that are not open. It never blocks on clients. The error lists the
// changes that could not be sent; all others are sent.
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
			// A client can be subscribed to several of the topics; it gets all frames with the first topic.
			if c.lastOffered < first {
				c.lastOffered = h.sequence
				c.offer(frames)
			}
		}
	}
	return errors.Join(errs...)
}

// topicsFor returns the topic of each change, or nil for topics that are not open, so that no change is encoded
// without subscribers.
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

// ErrClosed means that the hub has ended. Clients must connect to another replica.
var ErrClosed = errors.New("the center is shutting down; reconnect")

// LimitError means that a limit of Options is exceeded.
type LimitError struct {
	Limit int
	// User is set if the limit of a user or of a tenant is exceeded.
	User string
	// Topics is set if MaxTopicsPerClient is exceeded.
	Topics int
}

func (e *LimitError) Error() string {
	switch {
	case e.Topics > 0:
		return fmt.Sprintf("stream requests %d topics, limit is %d; request fewer", e.Topics, e.Limit)
	case e.User != "":
		return fmt.Sprintf("%s has reached the limit of %d open streams and logs; close one", e.User, e.Limit)
	}
	return fmt.Sprintf("the center has reached the limit of %d open streams and logs; try again later, or run more replicas", e.Limit)
}

// Reserve counts a response that stays open but is not a stream of the hub, such as logs, within the same limits. The
// caller calls release when the response ends.
func (h *Hub) Reserve(user, tenant string) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.reserve(user, tenant); err != nil {
		return nil, err
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unreserve(user, tenant)
	}, nil
}

// admit checks the limits and counts the client. release reverts it.
func (h *Hub) admit(s Subscription) (release func(), err error) {
	if n := len(s.Topics); n > h.options.MaxTopicsPerClient {
		return nil, &LimitError{Limit: h.options.MaxTopicsPerClient, Topics: n}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.reserve(s.User, s.Tenant); err != nil {
		return nil, err
	}
	h.clientCount++
	h.serving.Add(1)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.clientCount--
		h.unreserve(s.User, s.Tenant)
		h.serving.Done()
	}, nil
}

// reserve requires the lock.
func (h *Hub) reserve(user, tenant string) error {
	o := &h.options
	switch {
	case h.closed:
		return ErrClosed
	case h.open >= o.MaxClients:
		return &LimitError{Limit: o.MaxClients}
	case h.openPerUser[user] >= o.MaxClientsPerUser:
		return &LimitError{Limit: o.MaxClientsPerUser, User: "user " + user}
	case h.openPerTenant[tenant] >= o.MaxClientsPerTenant:
		return &LimitError{Limit: o.MaxClientsPerTenant, User: tenant}
	}
	h.open++
	h.openPerUser[user]++
	h.openPerTenant[tenant]++
	return nil
}

// unreserve requires the lock.
func (h *Hub) unreserve(user, tenant string) {
	h.open--
	if h.openPerUser[user]--; h.openPerUser[user] == 0 {
		delete(h.openPerUser, user)
	}
	if h.openPerTenant[tenant]--; h.openPerTenant[tenant] == 0 {
		delete(h.openPerTenant, tenant)
	}
}
