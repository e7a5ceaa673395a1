package sse_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

// A client that stops reading and then goes on gets the newest state of everything, not all
// that happened.
func TestStuckClientCatchesUp(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{WriteTimeout: time.Minute})
	r.server.Start()
	c := r.dialStuck("topic=a")
	eventually(t, "client is there", func() bool { return r.hub.Stats().Snapshots == 1 })
	const rounds, keys = 300, 50
	pad := strings.Repeat("x", 2000)
	for i := range rounds {
		for k := range keys {
			r.src.set(entry("a", "x", fmt.Sprint(k), fmt.Sprint(i, pad)))
		}
	}
	r.src.set(entry("a", "x", "last", "1"), entry("a", "x", "0", nil))
	s := r.hub.Stats()
	if s.Coalesced < rounds*keys/2 || s.ClosedSlow != 0 {
		t.Fatalf("want most of %d frames to be coalesced and nobody closed, got %d and %d", rounds*keys, s.Coalesced, s.ClosedSlow)
	}
	got, number := map[string]string{}, 0
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Closing the body would wait for the end of the stream.
	defer func() { _ = c.Close(); _ = resp.Body.Close() }()
	for scan := bufio.NewScanner(resp.Body); got["x/last"] == "" || got["x/0"] != ""; {
		if !scan.Scan() {
			t.Fatalf("the stream ended: %v", scan.Err())
		}
		if id, ok := strings.CutPrefix(scan.Text(), "id: "); ok {
			previous := number
			if _, err := fmt.Sscanf(id[strings.Index(id, "-")+1:], "%d", &number); err != nil || number <= previous && previous > 0 {
				t.Fatalf("id %s came after number %d (%v)", id, previous, err)
			}
		}
		data, ok := bytes.CutPrefix(scan.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e struct{ Key, Body string }
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		got[e.Key] = strings.TrimSuffix(e.Body, pad)
	}
	for k := 1; k < keys; k++ {
		if got := strings.TrimSpace(got[fmt.Sprint("x/", k)]); got != fmt.Sprint(rounds-1) {
			t.Errorf("key %d: want %d, got %q", k, rounds-1, got)
		}
	}
	if s := r.hub.Stats(); s.ClosedSlow != 0 {
		t.Errorf("want nobody closed, got %d", s.ClosedSlow)
	}
}

// A client that takes nothing is closed when a write has had its time.
func TestStuckClientIsClosed(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{WriteTimeout: 300 * time.Millisecond})
	r.server.Start()
	r.dialStuck("topic=a")
	healthy := r.connect("topic=a", "")
	healthy.expectEvents("", "snapshot")
	eventually(t, "clients are there", func() bool { return r.hub.Stats().Snapshots == 2 })
	pad := strings.Repeat("x", 100<<10)
	sent := 0
	eventually(t, "the stuck one is closed", func() bool {
		r.src.set(entry("a", "x", "one", fmt.Sprint(sent, pad)))
		sent++
		return r.hub.Stats().ClosedSlow == 1
	})
	eventually(t, "it is gone", func() bool { return r.hub.Stats().Clients == 1 })
	for want := fmt.Sprintf("x/one=%d%s", sent-1, pad); formatDelta(t, healthy.expectEvents("change")[0]) != want; {
	}
}

// What is too much even when coalesced is dropped at once, and the client comes back for the
// whole.
func TestOverflowingClientIsDisconnected(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{WriteTimeout: time.Minute})
	r.server.Start()
	c := r.dialStuck("topic=a")
	eventually(t, "client is there", func() bool { return r.hub.Stats().Snapshots == 1 })
	pad := strings.Repeat("x", 10<<10)
	for k := range 2000 {
		r.src.set(entry("a", "x", fmt.Sprint(k), pad))
	}
	all, err := readAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(all, "event: reconnect\ndata: {\"reason\":\"slow\"}\n\n") || !strings.Contains(all, "\n\nid:\nretry: ") {
		t.Errorf("want to be told to come again without an id, got …%q", all[max(0, len(all)-200):])
	}
	if s := r.hub.Stats(); s.ClosedSlow != 1 {
		t.Errorf("want 1 closed, got %d", s.ClosedSlow)
	}
}

func readAll(c io.Reader) (string, error) {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}
