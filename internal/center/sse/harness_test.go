package sse_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

const testTimeout = 10 * time.Second

// fakeSource stores entries and holds its lock while it publishes, as Source recommends.
type fakeSource struct {
	mu     sync.Mutex
	hub    *sse.Hub
	topics map[string]map[string]sse.Change
	open   map[string]bool
	calls  []string
	// onRead is called in Open when the entries are read.
	onRead  func(topic string)
	openErr error
}

func (s *fakeSource) Open(topic string) ([]sse.Change, error) {
	s.mu.Lock()
	s.calls = append(s.calls, "open "+topic)
	if s.open[topic] {
		panic("opened twice: " + topic)
	}
	if s.openErr != nil {
		defer s.mu.Unlock()
		return nil, s.openErr
	}
	s.open[topic] = true
	entries := slices.Collect(maps.Values(s.topics[topic]))
	s.mu.Unlock()
	if s.onRead != nil {
		s.onRead(topic)
	}
	return entries, nil
}

func (s *fakeSource) Close(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "close "+topic)
	if !s.open[topic] {
		panic("closed but not open: " + topic)
	}
	delete(s.open, topic)
}

func (s *fakeSource) callLog() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// set changes entries and publishes the changes of open topics.
func (s *fakeSource) set(changes ...sse.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []sse.Change
	for _, c := range changes {
		if s.topics[c.Topic] == nil {
			s.topics[c.Topic] = map[string]sse.Change{}
		}
		s.topics[c.Topic][c.Key] = c
		if c.Body == nil {
			delete(s.topics[c.Topic], c.Key)
		}
		if s.open[c.Topic] {
			open = append(open, c)
		}
	}
	if err := s.hub.Publish(open...); err != nil {
		panic(err)
	}
}

func pods(ns string) sse.Scope { return sse.Scope{Resource: "pods", Namespace: ns} }

// entry returns a change that requires permission to list pods in a namespace.
func entry(topic, ns, name string, body any) sse.Change {
	return sse.Change{Topic: topic, Key: ns + "/" + name, Scopes: []sse.Scope{pods(ns)}, Body: body}
}

// fakeAccess contains the permissions of a user. Empty means all permissions.
type fakeAccess struct {
	mu         sync.Mutex
	namespaces []string
	changed    chan struct{}
	revoked    chan struct{}
}

func allowAll() *fakeAccess { return allowNamespaces() }

func allowNamespaces(namespaces ...string) *fakeAccess {
	return &fakeAccess{namespaces: namespaces, changed: make(chan struct{}, 1), revoked: make(chan struct{})}
}

func (r *fakeAccess) allows(s sse.Scope) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.namespaces) == 0 || slices.Contains(r.namespaces, s.Namespace)
}

func (r *fakeAccess) set(namespaces ...string) {
	r.mu.Lock()
	r.namespaces = namespaces
	r.mu.Unlock()
	r.changed <- struct{}{}
}

// harness is a hub behind a real HTTP server.
type harness struct {
	t      *testing.T
	src    *fakeSource
	hub    *sse.Hub
	server *httptest.Server
	stop   func()
	mu     sync.Mutex
	access map[string]*fakeAccess
}

func newHarness(t *testing.T, c clock.WithTicker, o sse.Options) *harness {
	t.Helper()
	src := &fakeSource{topics: map[string]map[string]sse.Change{}, open: map[string]bool{}}
	h := sse.New(src, c, o)
	src.hub = h
	r := &harness{t: t, src: src, hub: h, access: map[string]*fakeAccess{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.server.EnableHTTP2 = true
	r.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(testTimeout):
			t.Error("the hub does not stop")
		}
	})
	t.Cleanup(func() { r.stop(); r.server.Close() })
	return r
}

func startHarness(t *testing.T) *harness {
	t.Helper()
	r := newHarness(t, clock.RealClock{}, sse.Options{})
	r.server.Start()
	return r
}

func (r *harness) serve(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	userAccess := r.accessOf(q.Get("user"))
	err := r.hub.Serve(w, req, sse.Subscription{
		Topics: q["topic"], User: q.Get("user"), Tenant: "user " + q.Get("user"), Allows: userAccess.allows, AccessChanged: userAccess.changed, Revoked: userAccess.revoked, ForceSnapshot: q.Has("fresh"),
	})
	var limit *sse.LimitError
	switch {
	case errors.As(err, &limit) && limit.User != "":
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

func (r *harness) accessOf(name string) *fakeAccess {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.access[name] == nil {
		r.access[name] = allowAll()
	}
	return r.access[name]
}

// event is an event as received.
type event struct {
	id, name, data, retry string
	hasID, comment        bool
}

// testStream reads a stream.
type testStream struct {
	t      *testing.T
	resp   *http.Response
	events chan event
	cancel func()
}

func (r *harness) request(query, lastID string) (*http.Response, func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/?"+query, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := r.server.Client().Do(req)
	if err != nil {
		r.t.Fatalf("get %s: %v", query, err)
	}
	return resp, cancel
}

func (r *harness) connect(query, lastID string) *testStream {
	r.t.Helper()
	resp, cancel := r.request(query, lastID) //nolint:bodyclose // The stream's cancel closes it.
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("get %s: status %d", query, resp.StatusCode)
	}
	c := &testStream{t: r.t, resp: resp, events: make(chan event, 1<<16), cancel: func() { cancel(); _ = resp.Body.Close() }}
	r.t.Cleanup(c.cancel)
	go func() {
		defer close(c.events)
		scan := bufio.NewScanner(resp.Body)
		scan.Buffer(nil, 8<<20)
		for e := (event{}); scan.Scan(); {
			field, value, _ := strings.Cut(scan.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case scan.Text() == "":
				c.events <- e
				e = event{}
			case field == "":
				e.comment = true
			case field == "id":
				e.id, e.hasID = value, true
			case field == "event":
				e.name = value
			case field == "data":
				e.data = value
			case field == "retry":
				e.retry = value
			}
		}
	}()
	return c
}

// next returns the next event, or false at the end of the stream.
func (c *testStream) next() (event, bool) {
	c.t.Helper()
	select {
	case e, ok := <-c.events:
		return e, ok
	case <-time.After(testTimeout):
		c.t.Fatal("no event")
		return event{}, false
	}
}

// expectEvents fails unless the next events have these names.
func (c *testStream) expectEvents(names ...string) []event {
	c.t.Helper()
	var got []event
	for _, name := range names {
		e, ok := c.next()
		if !ok || e.name != name {
			c.t.Fatalf("event %d: want %q, got %+v (open: %t)", len(got), name, e, ok)
		}
		got = append(got, e)
	}
	return got
}

// expectNoEvent fails if anything but a comment is received.
func (c *testStream) expectNoEvent() {
	c.t.Helper()
	select {
	case e, ok := <-c.events:
		c.t.Fatalf("want no event, got %+v (open: %t)", e, ok)
	case <-time.After(50 * time.Millisecond):
	}
}

type payload struct {
	Topic, Key, Event string
	Body              any
	Part              int
	Complete          bool
	Entries           []payload
}

func decode(t *testing.T, e event) payload {
	t.Helper()
	var p payload
	if err := json.Unmarshal([]byte(e.data), &p); err != nil {
		t.Fatalf("decode %q: %v", e.data, err)
	}
	return p
}

// formatDelta formats a delta.
func formatDelta(t *testing.T, e event) string {
	p := decode(t, e)
	if p.Body == nil {
		return p.Key + " gone"
	}
	return fmt.Sprintf("%s=%v", p.Key, p.Body)
}

// snapshotEntries returns the entries of a complete snapshot.
func snapshotEntries(t *testing.T, e event) []string {
	t.Helper()
	p := decode(t, e)
	if !p.Complete || p.Part != 0 {
		t.Fatalf("want a snapshot in one part, got %q", e.data)
	}
	var got []string
	for _, x := range p.Entries {
		got = append(got, fmt.Sprintf("%s=%v", x.Key, x.Body))
	}
	slices.Sort(got)
	return got
}

// dialStuck returns a client that does not read until the test tells it to.
func (r *harness) dialStuck(query string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	// Small enough to fill up soon, and large enough to be drained fast.
	if err := c.(*net.TCPConn).SetReadBuffer(128 << 10); err != nil {
		r.t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(3 * testTimeout)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /?%s HTTP/1.1\r\nHost: center\r\n\r\n", query); err != nil {
		r.t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, description string, ok func() bool) {
	t.Helper()
	poll := func(context.Context) (bool, error) { return ok(), nil }
	if err := wait.PollUntilContextTimeout(context.Background(), 5*time.Millisecond, testTimeout, true, poll); err != nil {
		t.Fatalf("timed out after %s: %s", testTimeout, description)
	}
}
