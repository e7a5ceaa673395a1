package bench

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stealInterval is the sampling interval of CPU steal.
const stealInterval = 5 * time.Second

// stealMonitor samples CPU steal. A mean over minutes would hide seconds without any CPU.
type stealMonitor struct {
	mu      sync.Mutex
	samples []stealSample
}

// stealSample is the number of stolen cores in an interval.
type stealSample struct {
	at    time.Time
	cores float64
}

// startStealMonitor samples until the context ends.
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

// peak returns the maximum since a time.
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

// stolenSeconds returns the CPU steal time since boot; 0 if it is not reported.
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
