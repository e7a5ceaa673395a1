package sse_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

func TestSnapshotThenDeltas(t *testing.T) {
	r := startHarness(t)
	r.src.set(entry("a", "x", "one", 1), entry("a", "y", "two", 2), entry("b", "x", "three", 3))
	c := r.connect("topic=a&topic=b&topic=a", "")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no",
	} {
		if got := c.resp.Header.Get(name); got != want {
			t.Errorf("header %s: want %q, got %q", name, want, got)
		}
	}
	got := c.expectEvents("", "snapshot")
	if ms, err := strconv.Atoi(got[0].retry); err != nil || ms < 1000 || ms > 3000 {
		t.Errorf("want a retry of 1 to 3 s, got %q", got[0].retry)
	}
	if diff := cmp.Diff([]string{"x/one=1", "x/three=3", "y/two=2"}, snapshotEntries(t, got[1])); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	m := regexp.MustCompile(`^([A-Z0-9]+)-(\d+)$`).FindStringSubmatch(got[1].id)
	if m == nil {
		t.Fatalf("want an id REPLICA-NUMBER, got %q", got[1].id)
	}
	first, _ := strconv.Atoi(m[2])

	r.src.set(entry("a", "x", "one", 10), entry("b", "x", "three", nil), entry("c", "x", "other", 1))
	r.src.set(entry("a", "x", "one", 10)) // unchanged: no frame
	last := entry("b", "z", "four", "4")
	last.Event = "arrived"
	r.src.set(last)
	var lines, ids []string
	for _, e := range c.expectEvents("change", "change", "arrived") {
		lines, ids = append(lines, formatDelta(t, e)), append(ids, e.id)
	}
	if diff := cmp.Diff([]string{"x/one=10", "x/three gone", "z/four=4"}, lines); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	var wantIDs []string
	for i := 1; i <= 3; i++ {
		wantIDs = append(wantIDs, m[1]+"-"+strconv.Itoa(first+i))
	}
	if diff := cmp.Diff(wantIDs, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	c.expectNoEvent()

	want := sse.Stats{
		Clients: 1, Frames: 6, Encodes: 6, Deliveries: 6, Snapshots: 1,
		Topics: []sse.TopicStats{
			{Topic: "a", Subscribers: 1, Entries: 2, RingFrames: 1}, {Topic: "b", Subscribers: 1, Entries: 1, RingFrames: 2},
		},
	}
	// The number of writes depends on the speed of the client's goroutine.
	if diff := cmp.Diff(want, r.hub.Stats(), cmpopts.IgnoreFields(sse.Stats{}, "Writes")); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

// Changes that are published together are written together, even for several topics.
func TestChangesPublishedTogetherAreWrittenTogether(t *testing.T) {
	r := startHarness(t)
	c := r.connect("topic=a&topic=b", "")
	c.expectEvents("", "snapshot")
	for range 20 {
		before := r.hub.Stats().Writes
		var changes []sse.Change
		for i := range 50 {
			changes = append(changes, entry([]string{"a", "b"}[i%2], "x", strconv.Itoa(i), before))
		}
		r.src.set(changes...)
		c.expectEvents(repeatName("change", 50)...)
		eventually(t, "write to be counted", func() bool { return r.hub.Stats().Writes > before })
		if got := r.hub.Stats().Writes - before; got != 1 {
			t.Fatalf("want 1 write, got %d", got)
		}
	}
}

func TestPublishRejectsInvalidChanges(t *testing.T) {
	r := startHarness(t)
	r.connect("topic=a", "").expectEvents("", "snapshot")
	for name, tc := range map[string]struct {
		change sse.Change
		want   string
	}{
		"not encodable":                {sse.Change{Topic: "a", Key: "k", Body: math.NaN()}, "publish a k: encode float64"},
		"too large":                    {sse.Change{Topic: "a", Key: "k", Body: strings.Repeat("x", sse.MaxBodyBytes)}, "split the body"},
		"reserved event name":          {sse.Change{Topic: "a", Key: "k", Event: "reset", Body: 1}, `event name "reset"`},
		"event name with a line break": {sse.Change{Topic: "a", Key: "k", Event: "a\nb", Body: 1}, `event name "a\nb"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := r.hub.Publish(tc.change)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
	if got := r.hub.Stats().Frames; got != 0 {
		t.Errorf("want no frame, got %d", got)
	}
}

// A change that is published during Open takes precedence over the loaded entry.
func TestPublishDuringOpenWins(t *testing.T) {
	r := startHarness(t)
	r.src.set(entry("a", "x", "changed", "old"), entry("a", "x", "removed", "old"), entry("a", "x", "back", "old"), entry("a", "x", "same", "old"))
	r.src.onRead = func(string) {
		r.src.set(entry("a", "x", "changed", "new"), entry("a", "x", "removed", nil), entry("a", "x", "added", "new"),
			entry("a", "x", "back", nil), entry("a", "x", "brief", "new"))
		r.src.set(entry("a", "x", "back", "new"), entry("a", "x", "brief", nil))
	}
	got := snapshotEntries(t, r.connect("topic=a", "").expectEvents("", "snapshot")[1])
	if diff := cmp.Diff([]string{"x/added=new", "x/back=new", "x/changed=new", "x/same=old"}, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func TestIdleTopicsAreClosed(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	r := newHarness(t, c, sse.Options{})
	r.server.Start()
	one, two := r.connect("topic=a", ""), r.connect("topic=a", "")
	one.expectEvents("", "snapshot")
	two.expectEvents("", "snapshot")
	one.cancel()
	two.cancel()
	eventually(t, "clients to disconnect", func() bool { return r.hub.Stats().Clients == 0 })
	// The hub checks for idle topics in the background without a signal to wait for.
	step := func(d time.Duration) { c.Step(d); time.Sleep(20 * time.Millisecond) }
	step(45 * time.Second)
	if diff := cmp.Diff([]string{"open a"}, r.src.callLog()); diff != "" {
		t.Fatalf("calls before a minute (-want +got):\n%s", diff)
	}
	again := r.connect("topic=a", "") // restarts the idle timeout
	again.expectEvents("", "snapshot")
	step(time.Minute)
	if diff := cmp.Diff([]string{"open a"}, r.src.callLog()); diff != "" {
		t.Fatalf("calls with a client (-want +got):\n%s", diff)
	}
	again.cancel()
	eventually(t, "client to disconnect", func() bool { return r.hub.Stats().Clients == 0 })
	for range 5 {
		step(15 * time.Second)
	}
	eventually(t, "topic to close", func() bool { return len(r.hub.Stats().Topics) == 0 })
	r.connect("topic=a", "").expectEvents("", "snapshot")
	r.stop()
	if diff := cmp.Diff([]string{"open a", "close a", "open a", "close a"}, r.src.callLog()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestSourceErrorIsReturned(t *testing.T) {
	r := startHarness(t)
	r.src.openErr = errors.New("no such application")
	resp, cancel := r.request("topic=a", "")
	defer cancel()
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if want := "open topic a: no such application\n"; resp.StatusCode != 503 || string(body) != want {
		t.Errorf("want 503 %q, got %d %q", want, resp.StatusCode, body)
	}
	r.src.openErr = nil
	r.connect("topic=a", "").expectEvents("", "snapshot")
}

func TestStreamLimits(t *testing.T) {
	r := newHarness(t, clocktesting.NewFakeClock(time.Now()), sse.Options{MaxClients: 3, MaxClientsPerUser: 2, MaxClientsPerTenant: 2, MaxTopicsPerClient: 2})
	r.server.Start()
	first := r.connect("topic=a&user=eve", "")
	r.connect("topic=a&user=eve", "")
	refused := func(query string, code int, want string) {
		t.Helper()
		resp, cancel := r.request(query, "")
		defer cancel()
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != code || !strings.Contains(string(body), want) {
			t.Errorf("want %d with %q, got %d %q", code, want, resp.StatusCode, body)
		}
	}
	refused("topic=a&user=eve", http.StatusTooManyRequests, "user eve has reached the limit of 2 open streams and logs")
	r.connect("topic=a&user=bob", "")
	refused("topic=a&user=ann", http.StatusServiceUnavailable, "limit of 3 open streams and logs")
	refused("topic=a&topic=b&topic=c&user=ann", http.StatusServiceUnavailable, "stream requests 3 topics, limit is 2")
	first.cancel()
	eventually(t, "eve to be below the limit", func() bool { return r.hub.Stats().Clients == 2 })
	r.connect("topic=a&user=eve", "").expectEvents("", "snapshot")
}

func TestReservationsCountAsStreams(t *testing.T) {
	r := newHarness(t, clocktesting.NewFakeClock(time.Now()), sse.Options{MaxClients: 4, MaxClientsPerUser: 2, MaxClientsPerTenant: 3})
	reserve := func(user, tenant, want string) func() {
		t.Helper()
		release, err := r.hub.Reserve(user, tenant)
		if got := fmt.Sprint(err); (err != nil || want != "") && !strings.HasPrefix(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
		return release
	}
	first := reserve("a", "namespace shop", "")
	reserve("a", "namespace shop", "")
	reserve("a", "namespace shop", "user a has reached the limit of 2 open streams and logs; close one")
	reserve("b", "namespace shop", "")
	reserve("c", "namespace shop", "namespace shop has reached the limit of 3 open streams and logs; close one")
	reserve("d", "user d", "")
	reserve("e", "user e", "the center has reached the limit of 4 open streams and logs")
	first()
	if clients := r.hub.Stats().Clients; clients != 0 {
		t.Errorf("%d streams are counted", clients)
	}
	reserve("c", "namespace shop", "")
}

func TestHeartbeat(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	r := newHarness(t, c, sse.Options{})
	r.server.Start()
	s := r.connect("topic=a", "")
	// A write restarts the heartbeat interval, shortly after the client has read the data.
	expectWrites := func(n uint64) {
		t.Helper()
		eventually(t, "write to be counted", func() bool { return r.hub.Stats().Writes == n })
	}
	expectHeartbeat := func() {
		t.Helper()
		c.Step(14 * time.Second)
		s.expectNoEvent()
		c.Step(time.Second)
		if e, _ := s.next(); !e.comment || e.name != "" || e.hasID {
			t.Errorf("want a comment, got %+v", e)
		}
	}
	s.expectEvents("", "snapshot")
	expectWrites(1)
	expectHeartbeat()
	expectWrites(2)
	expectHeartbeat()
	expectWrites(3)
	c.Step(14 * time.Second)
	r.src.set(entry("a", "x", "one", 1)) // replaces the heartbeat
	s.expectEvents("change")
	expectWrites(4)
	expectHeartbeat()
}

// With HTTP/2, an expired write deadline also ends an idle stream.
func TestIdleStreamSurvivesWriteDeadline(t *testing.T) {
	for name, start := range map[string]func(*harness){
		"HTTP/1.1": func(r *harness) { r.server.Start() },
		"HTTP/2":   func(r *harness) { r.server.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarness(t, clocktesting.NewFakeClock(time.Now()), sse.Options{WriteTimeout: 50 * time.Millisecond})
			start(r)
			c := r.connect("topic=a", "")
			if c.resp.Proto != name && c.resp.Proto != name+".0" {
				t.Fatalf("want %s, got %s", name, c.resp.Proto)
			}
			c.expectEvents("", "snapshot")
			time.Sleep(200 * time.Millisecond) // write deadlines use the real clock
			r.src.set(entry("a", "x", "one", 1))
			c.expectEvents("change")
		})
	}
}

func TestShutdown(t *testing.T) {
	before := runtime.NumGoroutine()
	r := startHarness(t)
	r.src.set(entry("a", "x", "one", 1))
	var all []*testStream
	for range 20 {
		all = append(all, r.connect("topic=a", ""))
	}
	for _, c := range all {
		c.expectEvents("", "snapshot")
	}
	r.stop()
	for _, c := range all {
		e := c.expectEvents("reconnect")[0]
		if e.data != `{"reason":"shutdown"}` || e.retry == "" {
			t.Errorf("want a reconnect event, got %+v", e)
		}
		if e, ok := c.next(); ok {
			t.Errorf("want the end of the stream, got %+v", e)
		}
	}
	resp, cancel := r.request("topic=a", "")
	_ = resp.Body.Close()
	cancel()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("want 503 after shutdown, got %d", resp.StatusCode)
	}
	if diff := cmp.Diff([]string{"open a", "close a"}, r.src.callLog()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	r.server.Close()
	r.server.Client().CloseIdleConnections()
	eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}
