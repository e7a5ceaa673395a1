package environment

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

const (
	// flipInterval is the interval in which another client changes fields of the operator.
	flipInterval = 100 * time.Millisecond
	// repairBurst is the number of corrections without delay; then there is one per second.
	repairBurst = 5
	// maxMemoryGrowth is the tolerance for the race detector and the garbage collector.
	maxMemoryGrowth = 24 << 20
)

// TestHostileController has another client change a label and the replicas of a child continuously. The operator must
// correct them once per second, emit one event, and recover when the changes stop.
func TestHostileController(t *testing.T) {
	w, row := newWorld(t, "27 hostile co-controller")
	shop := w.createStack("shop", `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1"}}
- {name: api, service: {image: "shop/api:1", replicas: 2, ports: [{port: 8080}]}}
`)
	web := &appsapi.AppService{ObjectMeta: w.objectMeta("lone")}
	web.Spec.Image, web.Spec.Replicas = "shop/web:1", new(int32(2))
	w.Expect(w.Create(w.Context(), web)).To(Succeed())
	w.WaitReady(shop)
	w.WaitReady(web)
	w.WaitIdle("shop")

	duration := sampleOrFull(10*time.Second, 5*time.Minute)
	memory := w.sampleMemory(duration)
	var flips int
	calls := w.OperatorRequests(func() {
		flips = w.flipFields(duration, "shop-api", "lone")
	})
	stoppedAt := time.Now()
	w.WaitReady(shop)
	w.WaitReady(web)
	healed := time.Since(stoppedAt)
	memoryBefore, memoryAfter := memory()

	var maxRepairs int
	for _, name := range []string{"shop-api", "lone"} {
		repairs := len(calls.Of("deployments.apps").Writes().Where(func(e *audit.Event) bool { return e.Accepted() && e.ObjectRef.Name == name }))
		maxRepairs = max(maxRepairs, repairs)
		w.Expect(repairs).To(BeNumerically("<=", repairBurst+int(duration.Seconds())+1), "%s:\n%s", name, calls.Count())
		if longRun { // on a busy machine the other client may always be first for a few seconds
			w.Expect(repairs).To(BeNumerically(">=", 1), name)
		}
	}
	status := len(calls.Of("appstacks.apps.holdfast.dev", "appservices.apps.holdfast.dev").Writes())
	w.Expect(status).To(BeNumerically("<=", 24), "the status must not change once the contention is reported:\n%s", calls.Count())
	for kind, name := range map[string]string{"AppStack": "shop", "AppService": "lone"} {
		w.Expect(w.countEvents(kind, name, "DriftContention")).To(Equal(1), name)
	}
	if longRun {
		w.Expect(memoryAfter-memoryBefore).To(BeNumerically("<", maxMemoryGrowth), "memory must not grow during contention")
	}
	w.ExpectSteadyState(shop, &appsv1.Deployment{ObjectMeta: w.objectMeta("shop-api")})
	w.ExpectSteadyState(web, &appsv1.Deployment{ObjectMeta: w.objectMeta("lone")})
	row.Run = flips
	row.Measured = fmt.Sprintf("%d flips in %.0f s; at most %d corrections of an object (%.2f/s beyond the burst), %d status writes, one event each; "+
		"resident memory %d MiB, %d MiB at the end; recovered after %.1f s",
		flips, duration.Seconds(), maxRepairs, max(0, float64(maxRepairs-repairBurst)/duration.Seconds()), status, memoryBefore>>20, memoryAfter>>20, healed.Seconds())
}

func (w *world) flipFields(duration time.Duration, names ...string) int {
	var group sync.WaitGroup
	var flips atomic.Int64
	start := time.Now()
	for _, name := range names {
		group.Go(func() {
			tick := time.NewTicker(flipInterval)
			defer tick.Stop()
			for i := 0; time.Since(start) < duration; i++ {
				body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, 3+i/2%2)
				if i%2 == 0 {
					body = fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/part-of":"theirs-%d"}}}`, i)
				}
				w.mergePatch(&appsv1.Deployment{ObjectMeta: w.objectMeta(name)}, "%s", body)
				flips.Add(1)
				<-tick.C
			}
		})
	}
	group.Wait()
	return int(flips.Load())
}

// countEvents returns how often an event about an object was emitted.
func (w *world) countEvents(kind, name, reason string) int {
	w.Helper()
	var events eventsv1.EventList
	w.Expect(w.List(w.Context(), &events, client.InNamespace(w.NS))).To(Succeed())
	count := 0
	for i := range events.Items {
		e := &events.Items[i]
		if e.Regarding.Kind != kind || e.Regarding.Name != name || e.Reason != reason {
			continue
		}
		count++
		if e.Series != nil {
			count += int(e.Series.Count) - 1
		}
	}
	return count
}

// sampleMemory measures the resident memory of the operator every second. It ignores the first third as warm-up and
// returns the medians of the second and the last third.
func (w *world) sampleMemory(duration time.Duration) func() (begins, ends int64) {
	var samples []int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			samples = append(samples, w.residentMemory())
			select {
			case <-done:
				return
			case <-time.After(max(duration/60, 100*time.Millisecond)):
			}
		}
	}()
	median := func(some []int64) int64 { return slices.Sorted(slices.Values(some))[len(some)/2] }
	return func() (int64, int64) {
		close(done)
		<-ended
		third := len(samples) / 3
		return median(samples[third : 2*third+1]), median(samples[2*third:])
	}
}

func (w *world) residentMemory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.Operator.Pid()))
	if err != nil {
		w.Errorf("read operator memory: %v", err)
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		w.Errorf("read operator memory: %v", err)
	}
	return kilobytes << 10
}
