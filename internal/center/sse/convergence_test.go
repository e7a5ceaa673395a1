package sse_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/center/sse/sseclient"
)

// replayedState applies a stream as a client does, and checks the ids.
type replayedState struct {
	state   map[string]string
	lastID  string
	number  uint64
	pending map[string]string
	seen    map[string]bool
}

func (p *replayedState) apply(t *testing.T, e event) {
	if e.hasID {
		p.lastID = e.id
	}
	if e.name == "" || e.name == "reconnect" || e.name == "reset" {
		return
	}
	d := decode(t, e)
	var number uint64
	if e.id != "" {
		if _, err := fmt.Sscanf(e.id[strings.Index(e.id, "-")+1:], "%d", &number); err != nil {
			t.Errorf("id %q: %v", e.id, err)
		}
	}
	if e.name == "snapshot" {
		if d.Part == 0 {
			p.pending = map[string]string{}
		}
		for _, x := range d.Entries {
			p.pending[x.Topic+" "+x.Key] = fmt.Sprint(x.Body)
		}
		if d.Complete {
			p.state, p.number = p.pending, number
		}
		return
	}
	if p.seen[e.id] {
		t.Errorf("received id %s twice", e.id)
	}
	p.seen[e.id] = true
	if number <= p.number {
		t.Errorf("received sequence number %d after %d", number, p.number)
	}
	p.number = number
	if d.Body == nil {
		delete(p.state, d.Topic+" "+d.Key)
		return
	}
	p.state[d.Topic+" "+d.Key] = fmt.Sprint(d.Body)
}

// Clients that connect, disconnect and pause at random times end with the part of the source state that they
// are allowed to see.
func TestClientsConvergeToSourceState(t *testing.T) {
	const publishers, clients, changes, keys = 4, 12, 200, 150
	r := newHarness(t, clock.RealClock{}, sse.Options{TopicIdleTimeout: 100 * time.Millisecond})
	r.server.Start()
	topics := []string{"a", "b"}
	namespaces := []string{"x", "y", "z"}
	pad := strings.Repeat("p", 500)
	change := func(rng *rand.Rand, i int) sse.Change {
		topic, n := topics[rng.IntN(2)], rng.IntN(keys)
		// The key does not contain the namespace, so entries move between scopes.
		c := sse.Change{Topic: topic, Key: fmt.Sprint(n), Scopes: []sse.Scope{pods(namespaces[rng.IntN(20)/9])}}
		if rng.IntN(4) > 0 {
			c.Body = fmt.Sprint(i, pad)
		}
		return c
	}
	for i := range 2 * keys {
		r.src.set(change(rand.New(rand.NewPCG(1, uint64(i))), i))
	}
	r.access["x"], r.access["y"] = allowNamespaces("x"), allowNamespaces("x", "y")

	var writers, readers sync.WaitGroup
	for p := range publishers {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(p)))
			for i := range changes {
				r.src.set(change(rng, i), change(rng, i))
				if rng.IntN(20) == 0 {
					time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond) // random pace
				}
			}
		})
	}
	writesDone := make(chan struct{})
	for i := range clients {
		user := []string{"all", "x", "y"}[i%3]
		readers.Go(func() { r.followAtRandom(t, user, rand.New(rand.NewPCG(3, uint64(i))), writesDone) })
	}
	writers.Wait()
	close(writesDone)
	readers.Wait()
	s := r.hub.Stats()
	t.Logf("frames %d, deliveries %d in %d writes, coalesced %d, snapshots %d, resumed %d, closed slow %d",
		s.Frames, s.Deliveries, s.Writes, s.Coalesced, s.Snapshots, s.Resumed, s.ClosedSlow)
	if s.Resumed == 0 || s.Snapshots == 0 {
		t.Error("want resumed clients and clients with a snapshot")
	}
}

// followAtRandom connects, reads, pauses and disconnects at random until all changes are written, and then
// compares the state.
func (r *harness) followAtRandom(t *testing.T, user string, rng *rand.Rand, writesDone <-chan struct{}) {
	p := &replayedState{seen: map[string]bool{}}
	for done := false; !done; {
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond) // random connect time
		select {
		case <-writesDone:
			done = true
		default:
		}
		c := r.connect("topic=a&topic=b&user="+user, p.lastID)
		if done {
			r.expectFinalState(t, user, p, c)
			return
		}
		for range rng.IntN(300) {
			if rng.IntN(50) == 0 {
				time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond) // random read pace
			}
			select {
			case e, ok := <-c.events:
				if ok {
					p.apply(t, e)
				}
			case <-writesDone:
			}
		}
		c.cancel()
	}
}

func (r *harness) expectFinalState(t *testing.T, user string, p *replayedState, c *testStream) {
	want := map[string]string{}
	r.src.mu.Lock()
	for topic, all := range r.src.topics {
		for key, x := range all {
			if r.accessOf(user).allows(x.Scopes[0]) {
				want[topic+" "+key] = fmt.Sprint(x.Body)
			}
		}
	}
	r.src.mu.Unlock()
	for end := time.After(testTimeout); ; {
		select {
		case e, ok := <-c.events:
			if !ok {
				t.Errorf("%s: the stream ended", user)
				return
			}
			p.apply(t, e)
		case <-end:
			t.Errorf("%s: did not reach the final state (-want +got):\n%.2000s", user, cmp.Diff(want, p.state))
			return
		}
		if len(c.events) == 0 && maps.Equal(want, p.state) {
			return
		}
	}
}

// The client of package sseclient reaches the same state despite disconnects.
func TestStreamClient(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{TopicIdleTimeout: 50 * time.Millisecond})
	r.server.Start()
	r.src.set(entry("a", "x", "0", 0), entry("a", "x", "gone", 0))
	updated, down := make(chan struct{}, 1), make(chan error, 10)
	var cut context.CancelFunc
	client := &sseclient.Client{
		Clock: immediateClock{}, OnDisconnect: func(err error) { down <- err },
		OnUpdate: func() {
			select {
			case updated <- struct{}{}:
			default:
			}
		},
		Connect: func(ctx context.Context, lastID string) (*http.Response, error) {
			ctx, cut = context.WithCancel(ctx)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/?topic=a", nil)
			if err != nil {
				return nil, err
			}
			req.Header.Set("Last-Event-ID", lastID)
			return r.server.Client().Do(req)
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	wait := func(key, want string) {
		t.Helper()
		for end := time.After(testTimeout); ; {
			if string(client.Entries()[sseclient.ID{Topic: "a", Key: key}].Body) == want {
				return
			}
			select {
			case <-updated:
			case <-end:
				t.Fatalf("did not receive %s=%s: %v", key, want, client.Entries())
			}
		}
	}
	wait("x/0", "0")
	r.src.set(entry("a", "x", "0", 1), entry("a", "x", "gone", nil))
	wait("x/0", "1")
	wait("x/gone", "")
	for i := range 3 {
		cut()
		<-down
		r.src.set(entry("a", "x", "0", 10+i))
		wait("x/0", fmt.Sprint(10+i))
	}
	if s := r.hub.Stats(); s.Resumed+s.Snapshots != 4 {
		t.Errorf("want 4 connections, got %d resumed and %d with a snapshot", s.Resumed, s.Snapshots)
	}
	cancel()
	if err := <-ended; err == nil || ctx.Err() == nil {
		t.Errorf("want the error of the context, got %v", err)
	}
	for key, e := range client.Entries() {
		if !json.Valid(e.Body) {
			t.Errorf("%v: %q", key, e.Body)
		}
	}
}

// immediateClock is a clock without retry delays.
type immediateClock struct{ clock.RealClock }

func (q immediateClock) NewTimer(time.Duration) clock.Timer {
	return q.RealClock.NewTimer(time.Millisecond)
}
