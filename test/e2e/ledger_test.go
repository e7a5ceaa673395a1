package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
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

	mu sync.Mutex
	// underway are requests that have not been answered.
	underway map[int64]bool
	acked    []int64
	failed   int
	// last is when a row was acknowledged last, and gap the longest time without one.
	last time.Time
	gap  time.Duration
	why  string
}

// toTheMillisecond is how times are told that others are held against.
const toTheMillisecond = "15:04:05.000"

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
		url: "http://" + address, last: time.Now(), underway: map[int64]bool{},
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
	l.mu.Lock()
	l.underway[id] = true
	l.mu.Unlock()
	begun := time.Now()
	err := l.post(ctx, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.underway, id)
	if ctx.Err() != nil {
		return // it is we who have given up
	}
	if err != nil {
		l.failed++
		l.why = fmt.Sprintf("asked at %s, answered at %s: %v", begun.Format(toTheMillisecond), time.Now().Format(toTheMillisecond), err)
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

// during says what was noticed while something went on, by those, too, who asked before it was over and are answered
// later: one of the writers may be back while the other still waits for a server that is gone.
func (l *ledger) during(do func()) noticed {
	l.mu.Lock()
	rows, failed := len(l.acked), l.failed
	l.gap, l.why = 0, ""
	l.mu.Unlock()
	do()
	l.answered()
	l.mu.Lock()
	defer l.mu.Unlock()
	return noticed{len(l.acked) - rows, l.failed - failed, max(l.gap, time.Since(l.last)), l.why}
}

// answered returns when everything is that is underway now.
func (l *ledger) answered() {
	l.mu.Lock()
	asked := maps.Clone(l.underway)
	l.mu.Unlock()
	for len(asked) > 0 { // the client gives up by itself
		time.Sleep(5 * time.Millisecond)
		l.mu.Lock()
		maps.DeleteFunc(asked, func(id int64, _ bool) bool { return !l.underway[id] })
		l.mu.Unlock()
	}
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
