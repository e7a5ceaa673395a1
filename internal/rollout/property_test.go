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
	seed   = flag.Uint64("seed", 0, "run only this graph of the property test, with a trace")
	graphs = flag.Int("graphs", 0, "number of graphs of the property test")
)

// TestPlanProperties runs the planner against applications with random edits and failing pods. See
// check for the properties of every plan. After the last edit, once everything is healthy, the
// state must match the spec without leftovers. Some applications are deleted instead, completely
// and in order.
func TestPlanProperties(t *testing.T) {
	n := 100_000
	if testing.Short() || raceDetector {
		n = 5_000
	}
	runSeeds(t, fastFactory{}, n)
}

// TestPlanPropertiesWithRealChildren does the same with children of package desired.
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

// runSeed runs one application from its creation until it converges.
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

// converge stops all edits and faults and waits until the state matches the spec.
func (w *world) converge() error {
	w.stopDisturbances()
	var err error
	// Each wave needs one round to be applied, and each removed wave one to be deleted. Replaced
	// pods need one more round until the record of their former dependencies is gone.
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
	return fmt.Errorf("everything is healthy, but the plan does not converge: %w", err)
}

// tearDown deletes the application in its current state.
func (w *world) tearDown() error {
	for range 2*len(w.ids) + 4 {
		d := PlanTeardown(shop, w.observed)
		if again := PlanTeardown(shop, w.observed); !reflect.DeepEqual(d, again) {
			return fmt.Errorf("the same input gives two teardown plans: %+v and %+v", d, again)
		}
		if w.trace != nil {
			w.trace("teardown: %s", strings.Join(teardownLines(d), "; "))
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
	return errors.New("the deletion never completes")
}

// planAndExecute plans and executes the plan.
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
