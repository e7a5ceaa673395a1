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

// openLoop begins n things at fixed times, whatever becomes of those before, and returns
// when all of them have returned. A driver that waits for an answer before it asks again
// leaves out exactly those who would have had to wait (coordinated omission). For the same
// reason a latency counts from when something was due, not from when it was begun.
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

// arrivals is how many come at a rate in a time: at least one.
func arrivals(perSecond float64, d time.Duration) int { return max(1, int(perSecond*d.Seconds())) }

// latencies are how long each of several things took.
type latencies []time.Duration

// percentile is the latency in ms that a share of all does not exceed.
func (l latencies) percentile(share float64) float64 {
	if len(l) == 0 {
		return math.NaN() // no figure rather than a good one
	}
	sorted := slices.Sorted(slices.Values(l))
	i := int(math.Ceil(share*float64(len(sorted)))) - 1
	return float64(sorted[max(i, 0)]) / float64(time.Millisecond)
}

// figures are the usual three, only told.
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

// stopwatch takes the time of many things at once, from when they are due until a watch
// sees them.
type stopwatch struct {
	mu      sync.Mutex
	pending map[string]time.Time
	took    latencies
}

func newStopwatch() *stopwatch { return &stopwatch{pending: map[string]time.Time{}} }

// start has to be called before anything is done: a watch may be faster than an answer.
func (w *stopwatch) start(key string, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[key] = due
}

// stop takes the time of what was started, once.
func (w *stopwatch) stop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if due, ok := w.pending[key]; ok {
		w.took = append(w.took, time.Since(due))
		delete(w.pending, key)
	}
}

// drop forgets what cannot be seen any more.
func (w *stopwatch) drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
}

// waitDone returns when everything that was started has been seen.
func (w *stopwatch) waitDone(s *harness, what string) {
	s.Helper()
	pending := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.pending)
	}
	s.eventually(what, func() string {
		if n := pending(); n > 0 {
			return fmt.Sprintf("%d are not seen", n)
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

// eventually waits until a question is answered with nothing, and says the last answer if
// that takes too long.
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

// watchObjects hands on what a watch of the driver's own shows, for as long as the test lasts.
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

// runInformer hands on what a watch shows; when it returns, nothing is missed any more. The API
// server ends a watch that cannot follow, as on a busy machine: then a new one is begun,
// and what happened in between is seen late.
func runInformer[T client.Object](s *harness, source *cache.ListWatch, handler func(watch.EventType, T)) {
	s.Helper()
	var kind T
	var watchCount atomic.Int64
	startWatch := source.WatchFuncWithContext
	source.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		if watchCount.Add(1) > 1 && ctx.Err() == nil {
			s.Logf("a watch of %s is begun again", reflect.TypeFor[T]())
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
		s.Fatalf("watch %s: the test is over", reflect.TypeFor[T]())
	}
}

// newOperatorHarness is a stage with the operator on it, whose requests are counted.
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

// createAtRate creates AppServices in an open loop, hands each one on, and returns how long each
// took from when it was due until a watch saw it Ready. All before them have to be Ready.
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

// markStartedAt is begun for what was due at another time than now.
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

// externalCPU is how much of the machine somebody else used since a usage was noted.
func (s *harness) externalCPU(row string, before usage, since time.Time) results.Figure {
	s.Helper()
	mean, worst := s.usage().since(before).external()/time.Since(since).Seconds(), s.stealMonitor.peak(since)
	return results.Figure{Row: row, Name: "CPU that others used meanwhile", Value: mean, Unit: "cores",
		Note: fmt.Sprintf("at worst %.1f cores were stolen within %s", worst, stealInterval), Peak: worst}
}
