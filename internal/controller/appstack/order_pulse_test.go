package appstack_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pulse is how long a small write takes, all the time. What the machine gives to nobody it
// does not give to the operator either.
type pulse struct {
	mu    sync.Mutex
	beats []beat
}

type beat struct{ from, to time.Time }

// feelPulse begins to write, until the test ends.
func (p *playground) feelPulse() *pulse {
	p.Helper()
	config := &corev1.ConfigMap{ObjectMeta: p.meta("pulse")}
	p.fatal(p.Create(p.Context(), config))
	ctx, stop := context.WithCancel(p.Context())
	out := &pulse{}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"beat":"%d"}}`, i))
			from := time.Now()
			if p.Patch(ctx, &corev1.ConfigMap{ObjectMeta: p.meta("pulse")}, patch) == nil {
				out.add(beat{from, time.Now()})
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	p.Cleanup(func() {
		stop()
		running.Wait()
	})
	return out
}

func (p *pulse) add(b beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats = append(p.beats, b)
}

// slowest is the longest of those that were under way between two moments.
func (p *pulse) slowest(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var most time.Duration
	for _, b := range p.beats {
		if b.to.After(from) && b.from.Before(to) {
			most = max(most, b.to.Sub(b.from))
		}
	}
	return most
}

// usual is how long they took usually.
func (p *pulse) usual() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Duration
	for _, b := range p.beats {
		all = append(all, b.to.Sub(b.from))
	}
	return quantile(all, 50)
}
