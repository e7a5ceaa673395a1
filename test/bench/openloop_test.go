package bench

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// openLoop starts n calls at fixed times, independent of earlier calls, and returns when all have returned. A driver
// that waits for responses would omit the requests with the longest waiting time (coordinated omission). For the same
// reason latencies are measured from the planned start.
func openLoop(ctx context.Context, perSecond float64, n int, do func(i int, due time.Time)) {
	start := time.Now()
	var group sync.WaitGroup
	defer group.Wait()
	for i := range n {
		due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		group.Go(func() { do(i, due) })
	}
}

// arrivals is the number of arrivals at a rate: at least one.
func arrivals(perSecond float64, d time.Duration) int { return max(1, int(perSecond*d.Seconds())) }

type latencies []time.Duration

// percentile returns the latency in ms that a share of calls does not exceed.
func (l latencies) percentile(share float64) float64 {
	if len(l) == 0 {
		return math.NaN() // no value instead of a good one
	}
	sorted := slices.Sorted(slices.Values(l))
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return float64(sorted[max(i, 0)]) / float64(time.Millisecond)
}

// figures returns p50, p99 and maximum, without limits.
func (l latencies) figures(row, name string) []results.Figure {
	note := fmt.Sprintf("n=%d", len(l))
	return []results.Figure{
		{Row: row, Name: name + ", p50", Value: l.percentile(0.50), Unit: "ms", Note: note},
		{Row: row, Name: name + ", p99", Value: l.percentile(0.99), Unit: "ms", Note: note},
		{Row: row, Name: name + ", max", Value: l.percentile(1), Unit: "ms", Note: note},
	}
}

func (l latencies) String() string {
	return fmt.Sprintf("p50 %.0f ms, p99 %.0f ms, max %.0f ms of %d", l.percentile(0.50), l.percentile(0.99), l.percentile(1), len(l))
}

// stopwatch measures many operations concurrently, from their planned start until a watch observes them.
type stopwatch struct {
	mu      sync.Mutex
	pending map[string]time.Time
	took    latencies
}

func newStopwatch() *stopwatch { return &stopwatch{pending: map[string]time.Time{}} }

// start must be called before the operation: the watch may be faster than the response.
func (w *stopwatch) start(key string, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[key] = due
}

// stop records the time of a started operation, once.
func (w *stopwatch) stop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if due, ok := w.pending[key]; ok {
		w.took = append(w.took, time.Since(due))
		delete(w.pending, key)
	}
}

// drop removes an operation that can no longer be observed.
func (w *stopwatch) drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
}

// waitDone waits until all started operations are observed.
func (w *stopwatch) waitDone(s *harness, what string) {
	s.Helper()
	pending := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.pending)
	}
	s.eventually(what, func() string {
		if n := pending(); n > 0 {
			return fmt.Sprintf("%d are not observed", n)
		}
		return ""
	})
}

// drain returns the times since the last call.
func (w *stopwatch) drain() latencies {
	w.mu.Lock()
	defer w.mu.Unlock()
	took := w.took
	w.took = nil
	return took
}

// eventually waits until missing returns "", and fails with the last value after a timeout.
func (s *harness) eventually(description string, missing func() string) {
	s.Helper()
	last := ""
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if last = missing(); last == "" {
			return
		}
	}
	s.Fatalf("%s: %s after %s", description, last, waitTimeout)
}

// watchObjects passes on the events of a separate watch for the duration of the test.
func watchObjects[T client.Object](s *harness, list client.ObjectList, handler func(watch.EventType, T)) {
	s.Helper()
	runInformer(s, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all := list.DeepCopyObject().(client.ObjectList)
			return all, s.List(ctx, all, &client.ListOptions{Raw: &o})
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return s.Watch(ctx, list, &client.ListOptions{Raw: &o})
		},
	}, handler)
}

// runInformer passes on events; once it returns, no later event is missed. The API server closes a watch that is too
// slow, as on a busy machine: then it is reopened, and events in between are delayed.
func runInformer[T client.Object](s *harness, source *cache.ListWatch, handler func(watch.EventType, T)) {
	s.Helper()
	var kind T
	var watchCount atomic.Int64
	startWatch := source.WatchFuncWithContext
	source.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if watchCount.Add(1) > 1 && ctx.Err() == nil {
			s.Logf("the watch of %s is reopened", reflect.TypeFor[T]())
		}
		return startWatch(ctx, o)
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { handler(watch.Added, o.(T)) },
			UpdateFunc: func(_, o any) { handler(watch.Modified, o.(T)) },
			DeleteFunc: func(o any) {
				if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = tombstone.Obj
				}
				handler(watch.Deleted, o.(T))
			},
		},
	})
	go informer.RunWithContext(s.Context())
	if !cache.WaitForCacheSync(s.Context().Done(), informer.HasSynced) {
		s.Fatalf("watch %s: the test has ended", reflect.TypeFor[T]())
	}
}

// newOperatorHarness is a harness with the operator, whose requests are counted.
func newOperatorHarness(t *testing.T) *harness {
	t.Helper()
	s := newHarness(t, controlplane.Options{})
	s.countCalls(operator.User)
	_, databaseEnv, err := sqlsim.Start(t.Context(), s.plane.Config)
	s.must(err)
	s.op = operator.Start(t, s.plane, operator.Options{NoRace: true, Args: s.pprofArgs(), Env: []string{databaseEnv}})
	time.Sleep(settleTime)
	return s
}

// createAtRate creates AppServices in an open loop, passes each one on, and returns the time of each from its planned
// start until a watch observed it as Ready. All earlier ones must be Ready.
func (s *harness) createAtRate(from int, perSecond float64, d time.Duration, created func(*appsapi.AppService)) latencies {
	s.Helper()
	n := arrivals(perSecond, d)
	s.createNamespaces(from, from+n)
	openLoop(s.Context(), perSecond, n, func(i int, due time.Time) {
		app := newApp(from + i)
		s.readiness.markStartedAt(app, due)
		if err := s.Create(s.Context(), app); err != nil {
			s.Error(err)
			return
		}
		created(app)
	})
	s.waitAllReady(from + n)
	return s.readiness.latenciesFor(from, from+n)
}

// markStartedAt starts the measurement at a given time.
func (r *readyTracker) markStartedAt(app *appsapi.AppService, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedAt[app.Name] = at
}

func (r *readyTracker) latenciesFor(from, to int) latencies {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out latencies
	for i := from; i < to; i++ {
		if d, ok := r.latency[newApp(i).Name]; ok {
			out = append(out, d)
		}
	}
	return out
}

// externalCPU returns the CPU use of other processes since a usage snapshot.
func (s *harness) externalCPU(row string, before usage, since time.Time) results.Figure {
	s.Helper()
	mean, worst := s.usage().since(before).external()/time.Since(since).Seconds(), s.stealMonitor.peak(since)
	return results.Figure{Row: row, Name: "CPU that others used meanwhile", Value: mean, Unit: "cores",
		Note: fmt.Sprintf("at most %.1f cores stolen within %s", worst, stealInterval), Peak: worst}
}
