package bench

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stealInterval is how often is looked at what other machines of the same host take.
const stealInterval = 5 * time.Second

// stealMonitor watches how much of this machine its host gives to others. A mean over minutes hides the seconds in
// which nothing ran at all.
type stealMonitor struct {
	mu      sync.Mutex
	samples []stealSample
}

// stealSample is how many cores were stolen in the time before.
type stealSample struct {
	at    time.Time
	cores float64
}

// startStealMonitor looks until the context ends.
func startStealMonitor(ctx context.Context) *stealMonitor {
	t := &stealMonitor{}
	go func() {
		last, at := stolenSeconds(), time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(stealInterval):
			}
			now, then := stolenSeconds(), at
			at = time.Now()
			t.mu.Lock()
			t.samples = append(t.samples, stealSample{at, (now - last) / at.Sub(then).Seconds()})
			t.mu.Unlock()
			last = now
		}
	}()
	return t
}

// peak is the most that was stolen in any of the times since.
func (t *stealMonitor) peak(since time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := 0.0
	for _, s := range t.samples {
		if s.at.After(since) {
			most = max(most, s.cores)
		}
	}
	return most
}

// stolenSeconds is how much CPU was stolen since the machine was started; 0 where that is not told.
func stolenSeconds() float64 {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(content), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return 0
	}
	ticks, err := strconv.ParseFloat(fields[8], 64)
	if err != nil {
		return 0
	}
	return ticks / clockTicks
}
