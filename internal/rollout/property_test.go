package rollout

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seed   = flag.Uint64("seed", 0, "play only this graph of the property test, and say what happens")
	graphs = flag.Int("graphs", 0, "how many graphs the property test plays")
)

// TestPlanProperties plays the planner against applications that are edited and whose pods
// fall over at random. See check for what must hold of every plan. When the edits end and
// everything that lives gets well, the spec has to come true and nothing else may be left.
// Some are deleted instead: in order, and all of it.
func TestPlanProperties(t *testing.T) {
	n := 100_000
	if testing.Short() || raceDetector {
		n = 5_000
	}
	runSeeds(t, fastFactory{}, n)
}

// TestPlanPropertiesWithRealChildren is the same with the children that package desired makes.
func TestPlanPropertiesWithRealChildren(t *testing.T) {
	n := 500
	if testing.Short() || raceDetector {
		n = 50
	}
	runSeeds(t, realFactory{}, n)
}

func runSeeds(t *testing.T, factory childFactory, n int) {
	t.Helper()
	if *seed != 0 {
		if err := runSeed(*seed, factory, t.Logf); err != nil {
			t.Error(err)
		}
		return
	}
	if *graphs != 0 {
		n = *graphs
	}
	var next, failedSeed atomic.Uint64
	failedSeed.Store(math.MaxUint64)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for s := next.Add(1); s <= uint64(n) && failedSeed.Load() == math.MaxUint64; s = next.Add(1) {
				if runSeed(s, factory, nil) != nil {
					failedSeed.Store(s)
				}
			}
		})
	}
	group.Wait()
	if s := failedSeed.Load(); s != math.MaxUint64 {
		var trace []string
		err := runSeed(s, factory, func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) })
		t.Fatalf("seed %d: %v\n%s\nReplay it: go test ./internal/rollout -run '^%s$' -v -seed %d", s, err, strings.Join(trace, "\n"), t.Name(), s)
	}
}

// runSeed plays one application from its creation to its rest.
func runSeed(seed uint64, factory childFactory, trace func(string, ...any)) error {
	w := newWorld(seed, factory, trace)
	for range 3 + w.IntN(8) {
		for range w.IntN(3) {
			w.edit()
		}
		for range w.IntN(2*len(w.ids) + 1) {
			w.randomEvent()
		}
		writes := math.MaxInt
		if w.oneIn(6) {
			writes = w.IntN(8)
		}
		if err := w.planAndExecute(writes); err != nil {
			return err
		}
	}
	if seed%4 == 0 {
		return w.tearDown()
	}
	return w.converge()
}

// converge ends all edits and troubles and waits for the spec to come true.
func (w *world) converge() error {
	w.stopDisturbances()
	var err error
	// Each wave needs a round to be applied, and each that left one to go; those whose pods
	// are new need one more until nobody can see any more what the old ones needed.
	for range 2*(len(w.testComponents)+len(w.ids)) + 4 {
		w.makeHealthy()
		p, failed := w.plan()
		if failed != nil {
			return failed
		}
		if err = w.checkConverged(p); err == nil {
			return nil
		}
		w.execute(p, math.MaxInt)
	}
	return fmt.Errorf("everything is well, and it does not come to rest: %w", err)
}

// tearDown deletes the application, in whatever state it is.
func (w *world) tearDown() error {
	for range 2*len(w.ids) + 4 {
		d := PlanTeardown(shop, w.observed)
		if again := PlanTeardown(shop, w.observed); !reflect.DeepEqual(d, again) {
			return fmt.Errorf("the same input is deleted in two ways: %+v and %+v", d, again)
		}
		if w.trace != nil {
			w.trace("down: %s", strings.Join(teardownLines(d), "; "))
		}
		if err := w.checkTeardown(d); err != nil || d.Done {
			return err
		}
		for _, id := range slices.Clone(w.ids) {
			if w.observed[id].GetDeletionTimestamp() != nil {
				w.deleteObject(id)
			}
		}
		for _, r := range d.Delete {
			w.remove(r.Child)
		}
	}
	return errors.New("it is never all deleted")
}

// planAndExecute plans, and does what was planned.
func (w *world) planAndExecute(writes int) error {
	p, err := w.plan()
	if err == nil {
		w.execute(p, writes)
	}
	return err
}

// plan plans twice, because the same input must give the same plan, and checks it.
func (w *world) plan() (Plan, error) {
	in := Input{Owner: shop, Components: w.spec, Observed: w.observed, ProtectedJobs: w.protectedJobs}
	p, err := NewPlan(in)
	if err != nil {
		return p, err
	}
	again, err := NewPlan(in)
	if err != nil {
		return p, err
	}
	for _, plan := range []Plan{p, again} {
		for _, s := range plan.Steps {
			for i := range s.Apply {
				s.Apply[i].Render = nil // functions cannot be compared
			}
		}
	}
	if w.trace != nil {
		for _, part := range w.testComponents {
			w.trace("  %s", part)
		}
		for _, line := range planLines(p) {
			w.trace("plan: %s", line)
		}
	}
	if !reflect.DeepEqual(p, again) {
		return p, fmt.Errorf("the same input gives two plans: %+v and %+v", p, again)
	}
	return p, w.check(p)
}
