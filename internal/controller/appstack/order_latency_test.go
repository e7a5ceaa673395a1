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

// latencyProbe measures the latency of small writes continuously, to adjust time limits on a busy machine.
type latencyProbe struct {
	mu      sync.Mutex
	samples []sample
}

type sample struct{ from, to time.Time }

// startLatencyProbe measures until the test ends.
func (p *watchedWorld) startLatencyProbe() *latencyProbe {
	p.Helper()
	config := &corev1.ConfigMap{ObjectMeta: p.objectMeta("pulse")}
	p.fatal(p.Create(p.Context(), config))
	ctx, stop := context.WithCancel(p.Context())
	out := &latencyProbe{}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"beat":"%d"}}`, i))
			from := time.Now()
			if p.Patch(ctx, &corev1.ConfigMap{ObjectMeta: p.objectMeta("pulse")}, patch) == nil {
				out.add(sample{from, time.Now()})
			}
			time.Sleep(50 * time.Millisecond) // pace
		}
	})
	p.Cleanup(func() {
		stop()
		running.Wait()
	})
	return out
}

func (p *latencyProbe) add(b sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, b)
}

// slowestBetween returns the longest latency in a period.
func (p *latencyProbe) slowestBetween(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for _, b := range p.samples {
		if b.to.After(from) && b.from.Before(to) {
			longest = max(longest, b.to.Sub(b.from))
		}
	}
	return longest
}

// median returns the median latency.
func (p *latencyProbe) median() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Duration
	for _, b := range p.samples {
		all = append(all, b.to.Sub(b.from))
	}
	return quantile(all, 50)
}
