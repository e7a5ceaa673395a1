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

// pulse is how long a small write takes, all the time. What a busy machine gives to nobody
// it does not give to the operator either.
type pulse struct {
	mu      sync.Mutex
	slowest time.Duration
}

// grace is what a limit of time may be exceeded by: a repair is a watch, a read and a write.
func (p *pulse) grace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 3 * p.slowest
}

// feelPulse begins to write, until the test ends.
func (w *world) feelPulse() *pulse {
	w.Helper()
	w.Expect(w.Create(w.Context(), &corev1.ConfigMap{ObjectMeta: w.meta("pulse")})).To(Succeed())
	ctx, stop := context.WithCancel(w.Context())
	out := &pulse{}
	var running sync.WaitGroup
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"beat":"%d"}}`, i))
			from := time.Now()
			if w.Patch(ctx, &corev1.ConfigMap{ObjectMeta: w.meta("pulse")}, patch) == nil {
				out.mu.Lock()
				out.slowest = max(out.slowest, time.Since(from))
				out.mu.Unlock()
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	w.Cleanup(func() {
		stop()
		running.Wait()
	})
	return out
}
