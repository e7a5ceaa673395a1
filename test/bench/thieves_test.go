package bench

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// vigil is how often is looked at what other machines of the same host take.
const vigil = 5 * time.Second

// thieves watches how much of this machine its host gives to others. A mean over minutes hides the seconds in
// which nothing ran at all.
type thieves struct {
	mu   sync.Mutex
	seen []theft
}

// theft is how many cores were stolen in the time before.
type theft struct {
	at    time.Time
	cores float64
}

// watchThieves looks until the context ends.
func watchThieves(ctx context.Context) *thieves {
	t := &thieves{}
	go func() {
		last, at := stolenSeconds(), time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(vigil):
			}
			now, then := stolenSeconds(), at
			at = time.Now()
			t.mu.Lock()
			t.seen = append(t.seen, theft{at, (now - last) / at.Sub(then).Seconds()})
			t.mu.Unlock()
			last = now
		}
	}()
	return t
}

// worst is the most that was stolen in any of the times since.
func (t *thieves) worst(since time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := 0.0
	for _, s := range t.seen {
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
