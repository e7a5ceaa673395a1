package faults

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// TestBackoffWhileWritesAreRejected rejects one write for a while with each error code. The operator must back off, emit
// one warning and continue once the write is accepted.
func TestBackoffWhileWritesAreRejected(t *testing.T) {
	if !isLongRun() {
		t.Skip("waits for a dozen retries: make faults runs it")
	}
	t.Parallel()
	start := time.Now()
	const rejectPeriod = 12 * time.Second
	g := newTestCluster(t, operator.Build(t, true))
	var mu sync.Mutex
	attempts, failed := map[string]int{}, 0
	runParallel(t, len(errorCodes), func(t *testing.T, i int) {
		var tries []time.Time
		w := newWorld(t, g)
		code, _ := strconv.Atoi(errorCodes[i]) // 0 for reset
		lifted := make(chan struct{})
		_, err := w.runStep(t.Context(), scenario[0], faultHooks{
			beforeStep: func() {
				w.injectFaults(func(write proxy.Write) *proxy.Fault {
					if !strings.HasPrefix(write.String(), "apply:deployments.apps/solo:") {
						return nil
					}
					select {
					case <-lifted:
						return nil
					default:
					}
					mu.Lock()
					defer mu.Unlock()
					tries = append(tries, time.Now())
					return &proxy.Fault{SkipForward: true, Code: code, Reset: code == 0}
				})
			},
			duringStep: func(ctx context.Context) error {
				sleep(ctx, rejectPeriod)
				close(lifted)
				return nil
			},
		})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s: %v", errorCodes[i], err)
		}
		if problem := backoffProblem(tries); problem != "" {
			t.Errorf("%s: %s", errorCodes[i], problem)
		}
		if n := w.countWarnings(t); n > 1 {
			t.Errorf("%s: got %d warnings, want 1", errorCodes[i], n)
		}
		if t.Failed() {
			failed++
		}
		attempts[errorCodes[i]] = len(tries)
	})
	report.WriteTimed(t, start, report.Row{Test: "4 rejected writes", Generated: len(errorCodes), Run: len(errorCodes), Failed: failed,
		Measured: fmt.Sprintf("attempts within %s: %v", rejectPeriod, attempts)})
}

// backoffProblem checks that the pauses between attempts grow, up to 5 s.
func backoffProblem(tries []time.Time) string {
	if len(tries) < 3 {
		return fmt.Sprintf("got only %d attempts", len(tries))
	}
	if len(tries) > 20 {
		return fmt.Sprintf("%d tries", len(tries))
	}
	first, last := tries[1].Sub(tries[0]), tries[len(tries)-1].Sub(tries[len(tries)-2])
	if last < 2*first && last < 900*time.Millisecond { // a Retry-After header sets the pause
		return fmt.Sprintf("pauses do not grow: first %s, last %s", first, last)
	}
	return ""
}

// countWarnings returns the number of Warning events.
func (w *world) countWarnings(t *testing.T) int {
	t.Helper()
	var events eventsv1.EventList
	if err := w.List(t.Context(), &events, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range events.Items {
		if e := &events.Items[i]; e.Type == "Warning" && e.Regarding.Kind == "AppService" {
			n++
		}
	}
	return n
}
