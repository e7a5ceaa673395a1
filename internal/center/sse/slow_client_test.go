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

// A client that stops reading and then continues gets the newest state, not every change.
func TestStuckClientCatchesUp(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{WriteTimeout: time.Minute})
	r.server.Start()
	c := r.dialStuck("topic=a")
	eventually(t, "client to connect", func() bool { return r.hub.Stats().Snapshots == 1 })
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
		t.Fatalf("want most of %d frames coalesced and no client closed, got %d and %d", rounds*keys, s.Coalesced, s.ClosedSlow)
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
				t.Fatalf("received id %s after sequence number %d (%v)", id, previous, err)
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
		t.Errorf("want no client closed, got %d", s.ClosedSlow)
	}
}

// A client that reads nothing is closed after the write timeout.
func TestStuckClientIsClosed(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{WriteTimeout: 300 * time.Millisecond})
	r.server.Start()
	r.dialStuck("topic=a")
	healthy := r.connect("topic=a", "")
	healthy.expectEvents("", "snapshot")
	eventually(t, "clients to connect", func() bool { return r.hub.Stats().Snapshots == 2 })
	pad := strings.Repeat("x", 100<<10)
	sent := 0
	eventually(t, "stuck client to be closed", func() bool {
		r.src.set(entry("a", "x", "one", fmt.Sprint(sent, pad)))
		sent++
		return r.hub.Stats().ClosedSlow == 1
	})
	eventually(t, "stuck client to disconnect", func() bool { return r.hub.Stats().Clients == 1 })
	for want := fmt.Sprintf("x/one=%d%s", sent-1, pad); formatDelta(t, healthy.expectEvents("change")[0]) != want; {
	}
}

// If the queue exceeds its limit although frames are coalesced, the client is disconnected and reconnects for a
// snapshot.
func TestOverflowingClientIsDisconnected(t *testing.T) {
	r := newHarness(t, clock.RealClock{}, sse.Options{WriteTimeout: time.Minute})
	r.server.Start()
	c := r.dialStuck("topic=a")
	eventually(t, "client to connect", func() bool { return r.hub.Stats().Snapshots == 1 })
	pad := strings.Repeat("x", 10<<10)
	for k := range 2000 {
		r.src.set(entry("a", "x", fmt.Sprint(k), pad))
	}
	all, err := readAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(all, "event: reconnect\ndata: {\"reason\":\"slow\"}\n\n") || !strings.Contains(all, "\n\nid:\nretry: ") {
		t.Errorf("want a reconnect event without an id, got …%q", all[max(0, len(all)-200):])
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
