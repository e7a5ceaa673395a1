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

	"github.com/holdfast-dev/holdfast/internal/center/web"
)

// TestHostile lets others be slow, large and many, and sees that nobody else notices.
func TestHostile(t *testing.T) {
	const limit = 200 * time.Millisecond
	stalled, slow := 100, 50
	if os.Getenv("HOLDFAST_LONG") != "" {
		stalled, slow = 1000, 500
	}
	h := newHall(t, 50)
	h.public(t)
	quiet := h.visits(t, 200)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range stalled { // they ask for a stream and never read it
		dial(t, h.house, h.token, "")
	}
	h.clients(t, stalled)
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
	busy := h.visitsAmongWrites(t)
	for try := 1; try < tries() && busy > limit; try++ {
		t.Logf("p99 of a page is %s: once more", ms(busy))
		busy = h.visitsAmongWrites(t)
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
	h.large(t)
	h.unfinished(t)
}

// visitsAmongWrites is the p99 of a page while things change.
func (h *hall) visitsAmongWrites(t *testing.T) time.Duration {
	t.Helper()
	b := &beats{sent: map[int]time.Time{}, took: map[string][]time.Duration{}, heard: map[string]int{}}
	var writes sync.WaitGroup
	writes.Go(func() {
		for n := range 100 {
			h.beat(b, n, n%20)
		}
	})
	defer writes.Wait()
	return h.visits(t, 200)
}

// public serves the center as its program does.
func (h *hall) public(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := web.NewHTTPServer(h.Handler())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	h.url = "http://" + l.Addr().String()
}

// visits ask for a page many times, and say how long the slowest but one in a hundred took.
func (h *hall) visits(t *testing.T, times int) time.Duration {
	t.Helper()
	var took []time.Duration
	for range times {
		begin := time.Now()
		if code := h.get(h.token, "/api/v1/applications", nil); code != http.StatusOK {
			t.Fatal(code)
		}
		took = append(took, time.Since(begin))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// large asks with more than anybody needs to say.
func (h *hall) large(t *testing.T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1/applications", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("X-Large", strings.Repeat("x", 1<<20))
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return // cut off
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("1 MiB of headers: %d", answer.StatusCode)
	}
}

// unfinished says half a request, and is cut off.
func (h *hall) unfinished(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: center\r\n"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := conn.SetReadDeadline(begin.Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err = bufio.NewReader(conn).ReadString('\n')
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("half a request was waited for %s (%v)", took, err)
	} else {
		t.Logf("half a request is waited for %.0f s", took.Seconds())
	}
}
