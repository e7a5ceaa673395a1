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

// TestSlowClientsDoNotAffectOthers lets others be slow, large and many, and sees that nobody else notices.
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
	for range stalled { // they ask for a stream and never read it
		dialStream(t, h.testCenter, h.token, "")
	}
	h.waitForClients(t, stalled)
	for range slow { // they never finish what they say
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
		t.Logf("p99 of a page is %s: once more", ms(busy))
		busy = h.pageLatencyDuringWrites(t)
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(stalled)
	t.Logf("%d streams that nobody reads and %d requests that never end: p99 of a page %s, before %s; %d kB of heap for each", stalled, slow, ms(busy), ms(quiet), each>>10)
	if busy > limit {
		t.Errorf("p99 is %s", ms(busy))
	}
	if each > 2<<20 {
		t.Errorf("%d bytes for each stream that nobody reads", each)
	}
	h.testLargeHeaders(t)
	h.testIncompleteRequest(t)
}

// pageLatencyDuringWrites is the p99 of a page while things change.
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

// servePublic serves the center as its program does.
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

// pageLatency ask for a page many times, and say how long the slowest but one in a hundred took.
func (h *benchCenter) pageLatency(t *testing.T, times int) time.Duration {
	t.Helper()
	var latencies []time.Duration
	for range times {
		start := time.Now()
		if code := h.get(h.token, "/api/v1/applications", nil); code != http.StatusOK {
			t.Fatal(code)
		}
		latencies = append(latencies, time.Since(start))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(latencies)
	return latencies[len(latencies)*99/100]
}

// testLargeHeaders asks with more than anybody needs to say.
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
		return // cut off
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("1 MiB of headers: %d", response.StatusCode)
	}
}

// testIncompleteRequest says half a request, and is cut off.
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
		t.Errorf("half a request was waited for %s (%v)", took, err)
	} else {
		t.Logf("half a request is waited for %.0f s", took.Seconds())
	}
}
