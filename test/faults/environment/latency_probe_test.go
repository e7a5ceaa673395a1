package environment

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// latencyProbe measures the latency of small writes continuously, to adjust time limits on a busy machine.
type latencyProbe struct {
	mu      sync.Mutex
	slowest time.Duration
}

// grace is the tolerance of time limits: a correction needs a watch event, a read and a write.
func (p *latencyProbe) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 3 * p.slowest
}

// startLatencyProbe measures until the test ends.
func (w *world) startLatencyProbe() *latencyProbe {
	w.Helper()
	w.Expect(w.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: w.objectMeta("pulse")})).To(Succeed())
	ctx, stop := context.WithCancel(w.Context())
	probe := &latencyProbe{}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"beat":"%d"}}`, i))
			from := time.Now()
			if w.Patch(ctx, &corev1.ConfigMap{ObjectMeta: w.objectMeta("pulse")}, patch) == nil {
				probe.mu.Lock()
				probe.slowest = max(probe.slowest, time.Since(from))
				probe.mu.Unlock()
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	w.Cleanup(func() {
		stop()
		running.Wait()
	})
	return probe
}
