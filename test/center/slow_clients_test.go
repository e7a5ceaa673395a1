package center

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
)

// TestSlowClientsDoNotAffectOthers checks that slow, large and many requests do not slow down other clients.
func TestSlowClientsDoNotAffectOthers(t *testing.T) {
	const limit = 200 * time.Millisecond
	stalled, slow := 100, 50
	if os.Getenv("HOLDFAST_LONG") != "" {
		stalled, slow = 1000, 500
	}
	h := newBenchCenter(t, 50)
	h.servePublic(t)
	quiet := h.pageLatency(t, 200)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range stalled { // request a stream and never read it
		dialStream(t, h.testCenter, h.token, "")
	}
	h.waitForClients(t, stalled)
	for range slow { // never finish the request
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "GET /api/v1/applications HTTP/1.1\r\nHost: center\r\nX-Slow: "); err != nil {
			t.Fatal(err)
		}
	}
	busy := h.pageLatencyDuringWrites(t)
	for try := 1; try < maxAttempts() && busy > limit; try++ {
		t.Logf("p99 of a page is %s: retrying", ms(busy))
		busy = h.pageLatencyDuringWrites(t)
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(stalled)
	t.Logf("%d stalled streams and %d incomplete requests: p99 of a page %s, before %s; %d kB of heap each", stalled, slow, ms(busy),
		ms(quiet), each>>10)
	if busy > limit {
		t.Errorf("p99 is %s", ms(busy))
	}
	if each > 2<<20 {
		t.Errorf("%d bytes per stalled stream", each)
	}
	h.testLargeHeaders(t)
	h.testIncompleteRequest(t)
}

// pageLatencyDuringWrites returns the p99 latency of a page during changes.
func (h *benchCenter) pageLatencyDuringWrites(t *testing.T) time.Duration {
	t.Helper()
	b := &latencyRecorder{sent: map[int]time.Time{}, latencies: map[string][]time.Duration{}, received: map[string]int{}}
	var writes sync.WaitGroup
	writes.Go(func() {
		for n := range 100 {
			h.writeStatus(b, n, n%20)
		}
	})
	defer writes.Wait()
	return h.pageLatency(t, 200)
}

// servePublic serves the center with the server of cmd/center.
func (h *benchCenter) servePublic(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httpapi.NewHTTPServer(h.Handler())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	h.url = "http://" + l.Addr().String()
}

// pageLatency requests a page many times and returns the p99 latency.
func (h *benchCenter) pageLatency(t *testing.T, times int) time.Duration {
	t.Helper()
	var latencies []time.Duration
	for range times {
		start := time.Now()
		if code := h.get(h.token, "/api/v1/applications", nil); code != http.StatusOK {
			t.Fatal(code)
		}
		latencies = append(latencies, time.Since(start))
		time.Sleep(5 * time.Millisecond) // pace
	}
	slices.Sort(latencies)
	return latencies[len(latencies)*99/100]
}

// testLargeHeaders sends a request with too large headers.
func (h *benchCenter) testLargeHeaders(t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1/applications", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("X-Large", strings.Repeat("x", 1<<20))
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return // the server closed the connection
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("1 MiB of headers: %d", response.StatusCode)
	}
}

// testIncompleteRequest checks that the server closes a connection with an incomplete request.
func (h *benchCenter) testIncompleteRequest(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: center\r\n"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := conn.SetReadDeadline(start.Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("the incomplete request was closed after %s (%v)", took, err)
	} else {
		t.Logf("an incomplete request is closed after %.0f s", took.Seconds())
	}
}
