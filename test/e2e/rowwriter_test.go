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

// rowWriter writes rows through an application and records which were acknowledged.
type rowWriter struct {
	httpClient *http.Client
	url        string
	nextID     atomic.Int64

	mu       sync.Mutex
	inFlight map[int64]bool
	acked    []int64
	failures int
	// lastAck is the time of the last acknowledged row, maxGap the longest time without one.
	lastAck     time.Time
	maxGap      time.Duration
	lastFailure string
}

const timeFormat = "15:04:05.000"

// writers is the number of concurrent requests.
const writers = 2

// startRowWriter writes to a Service of the cluster until the test ends.
func startRowWriter(t *testing.T, address string) *rowWriter {
	t.Helper()
	l := &rowWriter{
		// A new connection for each request, so that the Service balances them.
		httpClient: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: dialInNetns(fmt.Sprintf("/proc/%d/ns/net", clusterProcess(t, "kubelet"))),
		}},
		url: "http://" + address, lastAck: time.Now(), inFlight: map[int64]bool{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for ctx.Err() == nil {
				l.write(ctx)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return l
}

func (l *rowWriter) write(ctx context.Context) {
	id := l.nextID.Add(1)
	l.mu.Lock()
	l.inFlight[id] = true
	l.mu.Unlock()
	start := time.Now()
	err := l.post(ctx, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inFlight, id)
	if ctx.Err() != nil {
		return // the test has ended
	}
	if err != nil {
		l.failures++
		l.lastFailure = fmt.Sprintf("request at %s, response at %s: %v", start.Format(timeFormat), time.Now().Format(timeFormat), err)
		return
	}
	now := time.Now()
	l.maxGap = max(l.maxGap, now.Sub(l.lastAck))
	l.lastAck = now
	l.acked = append(l.acked, id)
}

func (l *rowWriter) post(ctx context.Context, id int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/rows/%d", l.url, id), nil)
	if err != nil {
		return err
	}
	resp, err := l.httpClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusCreated {
		message, _ := bufio.NewReader(resp.Body).ReadString('\n')
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(message))
	}
	return nil
}

// impact is the effect of a disturbance on the writers.
type impact struct {
	rows, failures int
	// maxGap is the longest time without a row.
	maxGap      time.Duration
	lastFailure string
}

// merge returns the largest gap and the sums of both.
func (n impact) merge(o impact) impact {
	return impact{n.rows + o.rows, n.failures + o.failures, max(n.maxGap, o.maxGap), o.lastFailure}
}

// impactOf measures the impact of a disturbance. It waits for requests in flight: one writer may have recovered while
// the other still waits for the old server.
func (l *rowWriter) impactOf(do func()) impact {
	l.mu.Lock()
	rows, failed := len(l.acked), l.failures
	l.maxGap, l.lastFailure = 0, ""
	l.mu.Unlock()
	do()
	l.waitInFlight()
	l.mu.Lock()
	defer l.mu.Unlock()
	return impact{len(l.acked) - rows, l.failures - failed, max(l.maxGap, time.Since(l.lastAck)), l.lastFailure}
}

// waitInFlight waits until all current requests are finished.
func (l *rowWriter) waitInFlight() {
	l.mu.Lock()
	pending := maps.Clone(l.inFlight)
	l.mu.Unlock()
	for len(pending) > 0 { // requests have a timeout
		time.Sleep(5 * time.Millisecond)
		l.mu.Lock()
		maps.DeleteFunc(pending, func(id int64, _ bool) bool { return !l.inFlight[id] })
		l.mu.Unlock()
	}
}

// ackedCount returns the number of acknowledged rows.
func (l *rowWriter) ackedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// missingRows returns acknowledged rows that are missing in the database.
func (l *rowWriter) missingRows(t *testing.T) []int64 {
	t.Helper()
	l.mu.Lock()
	acked := append([]int64(nil), l.acked...)
	l.mu.Unlock()
	resp, err := l.httpClient.Get(l.url + "/rows")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	stored := map[int64]bool{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatalf("GET /rows: %s: %v", lines.Text(), err)
		}
		stored[id] = true
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	var out []int64
	for _, id := range acked {
		if !stored[id] {
			out = append(out, id)
		}
	}
	return out
}
