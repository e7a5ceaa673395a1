package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ledger writes rows through an application, one after the other, and remembers which were
// acknowledged.
type ledger struct {
	http *http.Client
	// url is where the application is reached.
	url  string
	next atomic.Int64

	mu     sync.Mutex
	acked  []int64
	failed int
	// last is when a row was acknowledged last, and gap the longest time without one.
	last time.Time
	gap  time.Duration
	why  string
}

// writers is how many rows are on their way at the same time.
const writers = 2

// keepWriting begins to write to a Service of the cluster, until the test ends.
func keepWriting(t *testing.T, address string) *ledger {
	t.Helper()
	l := &ledger{
		// Each request with a connection of its own, as a Service hands them out.
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: dialFrom(fmt.Sprintf("/proc/%d/ns/net", process(t, "kubelet"))),
		}},
		url: "http://" + address, last: time.Now(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for ctx.Err() == nil {
				l.write(ctx)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return l
}

func (l *ledger) write(ctx context.Context) {
	id := l.next.Add(1)
	err := l.post(ctx, id)
	if ctx.Err() != nil {
		return // it is we who have given up
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed++
		l.why = err.Error()
		return
	}
	now := time.Now()
	l.gap = max(l.gap, now.Sub(l.last))
	l.last = now
	l.acked = append(l.acked, id)
}

func (l *ledger) post(ctx context.Context, id int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/rows/%d", l.url, id), nil)
	if err != nil {
		return err
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		said, _ := bufio.NewReader(resp.Body).ReadString('\n')
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(said))
	}
	return nil
}

// noticed is what those who wrote have noticed of something.
type noticed struct {
	rows, failed int
	// gap is the longest time without a row.
	gap time.Duration
	why string
}

// and is both: the worst gap, and everything else together.
func (n noticed) and(o noticed) noticed {
	return noticed{n.rows + o.rows, n.failed + o.failed, max(n.gap, o.gap), o.why}
}

// during says what was noticed while something went on.
func (l *ledger) during(do func()) noticed {
	l.mu.Lock()
	rows, failed := len(l.acked), l.failed
	l.gap, l.why = 0, ""
	l.mu.Unlock()
	do()
	l.mu.Lock()
	defer l.mu.Unlock()
	return noticed{len(l.acked) - rows, l.failed - failed, max(l.gap, time.Since(l.last)), l.why}
}

// count is how many rows were acknowledged.
func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// missing are rows that were acknowledged and are not there.
func (l *ledger) missing(t *testing.T) []int64 {
	t.Helper()
	l.mu.Lock()
	acked := append([]int64(nil), l.acked...)
	l.mu.Unlock()
	resp, err := l.http.Get(l.url + "/rows")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	there := map[int64]bool{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatalf("GET /rows: %s: %v", lines.Text(), err)
		}
		there[id] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	var out []int64
	for _, id := range acked {
		if !there[id] {
			out = append(out, id)
		}
	}
	return out
}
