package bench

import (
	"math"
	"sync"
	"testing"
	"time"
)

// TestOpenLoopDoesNotWaitForSlowCalls checks that a hanging call delays no other, and that a late call is measured from
// its planned start.
func TestOpenLoopDoesNotWaitForSlowCalls(t *testing.T) {
	const n, perSecond = 20, 200
	start := time.Now()
	release := make(chan struct{})
	var mu sync.Mutex
	due := map[int]time.Duration{}
	openLoop(t.Context(), perSecond, n, func(i int, at time.Time) {
		mu.Lock()
		due[i] = at.Sub(start)
		all := len(due) == n
		mu.Unlock()
		if all {
			close(release)
		}
		select {
		case <-release: // all calls started although the first has not returned
		case <-time.After(time.Minute):
			t.Errorf("call %d: not all calls started", i)
		}
	})
	for i := range n {
		if want := due[0] + time.Duration(i)*time.Second/perSecond; due[i] != want {
			t.Errorf("number %d was due after %s, want %s", i, due[i], want)
		}
	}
}

func TestLatencyPercentiles(t *testing.T) {
	var l latencies
	if !math.IsNaN(l.percentile(0.99)) {
		t.Error("percentile of no latencies: want NaN")
	}
	for i := 200; i > 0; i-- {
		l = append(l, time.Duration(i)*time.Millisecond)
	}
	for share, want := range map[float64]float64{0: 1, 0.50: 100, 0.99: 198, 1: 200} {
		if got := l.percentile(share); got != want {
			t.Errorf("percentile %g: got %g ms, want %g", share, got, want)
		}
	}
}

// TestStopwatchCountsOnceFromDueTime checks that an operation is measured once, from its planned start, and only if it
// was started.
func TestStopwatchCountsOnceFromDueTime(t *testing.T) {
	w := newStopwatch()
	w.start("a", time.Now().Add(-time.Hour))
	w.start("b", time.Now())
	w.stop("a")
	w.stop("a")
	w.stop("never started")
	w.drop("b")
	if took := w.drain(); len(took) != 1 || took[0] < time.Hour {
		t.Errorf("got %v, want one latency of an hour", took)
	}
	if len(w.drain()) != 0 || len(w.pending) != 0 {
		t.Error("got remaining latencies after drain")
	}
}
