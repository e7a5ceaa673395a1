package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
	"github.com/holdfast-dev/holdfast/test/faults/oracle"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

const (
	// quietPeriod is how long nobody may change anything until a step counts as settled.
	quietPeriod = 3 * time.Second
	// settleTimeout is how long that may take after the last fault.
	settleTimeout = 45 * time.Second
)

// stepResult is what a world was like when a step had settled.
type stepResult struct {
	snapshot oracle.Snapshot
	counts   oracle.Counts
	// writes are those of the operator during the step, as a plan names them.
	writes []string
}

// runStep plays a step with something going wrong and returns what became of it. An error says
// that it never settled, or that something happened that must not.
func (w *world) runStep(ctx context.Context, s step, hooks faultHooks) (stepResult, error) {
	from := len(w.watcher.Events())
	mark, err := w.cluster.log.Mark(ctx, w.cluster.plane.Config)
	if err != nil {
		return stepResult{}, err
	}
	var writesMu sync.Mutex
	var writes []string
	w.injectFaults(func(write proxy.Write) *proxy.Fault {
		writesMu.Lock()
		defer writesMu.Unlock()
		writes = append(writes, write.String())
		return nil
	})
	defer w.injectFaults(nil)
	if hooks.beforeStep != nil {
		hooks.beforeStep()
	}
	if err := s.run(w.user, ctx); err != nil {
		return stepResult{}, fmt.Errorf("the user cannot %s: %w", s.name, err)
	}
	w.lastWrite.Store(time.Now().UnixNano()) // what the user did counts too
	err = w.injectAndSettle(ctx, s, hooks, from)
	writesMu.Lock()
	defer writesMu.Unlock()
	m := stepResult{writes: writes}
	// What is unsafe says more than that something is stuck, which often follows from it.
	err = errors.Join(w.checkInvariants(ctx, &m, from, mark), err)
	return m, err
}

// injectAndSettle lets things go wrong, and waits until the step has settled all the same.
func (w *world) injectAndSettle(ctx context.Context, s step, hooks faultHooks, from int) error {
	if hooks.duringStep != nil {
		if err := hooks.duringStep(ctx); err != nil {
			return err
		}
	}
	if err := w.waitSettled(ctx, s); err != nil || hooks.afterSettled == nil {
		return err
	}
	if err := hooks.afterSettled(ctx, from); err != nil {
		return err
	}
	return w.waitSettled(ctx, s)
}

// checkInvariants takes a picture and looks for what must never happen.
func (w *world) checkInvariants(ctx context.Context, m *stepResult, from int, mark audit.Position) error {
	state := w.watcher.State()
	events := state.Events()
	var objects []*unstructured.Unstructured
	for _, resource := range watched {
		objects = append(objects, state.Live(resource)...)
	}
	m.snapshot, m.counts = oracle.NewSnapshot(w.namespace, objects), oracle.CountEvents(events[from:])
	requests, err := w.cluster.log.WithSubstring(w.namespace).Since(ctx, w.cluster.plane.Config, mark)
	if err != nil {
		return err
	}
	timeline := oracle.NewTimeline(events)
	violations := oracle.SafetyViolations(w.namespace, timeline, requests.By(w.operatorUser))
	violations = append(violations, oracle.ReadinessViolations(timeline)...)
	violations = append(violations, guard.check(timeline)...)
	violations = append(violations, findLockouts(events, w.cluster.databases)...)
	if len(violations) > 0 {
		return fmt.Errorf("unsafe:\n  %s", strings.Join(violations, "\n  "))
	}
	return nil
}

// waitSettled waits until a step has had its effect and nobody changes anything any more.
func (w *world) waitSettled(ctx context.Context, s step) error {
	deadline := time.Now().Add(settleTimeout)
	for {
		state := w.watcher.State()
		var missing []string
		for app, want := range s.want {
			kind, name, _ := strings.Cut(app, "/")
			if got := observedStatus(state, w.namespace, kind, name); got != want {
				missing = append(missing, fmt.Sprintf("%s is %s instead of %s", app, got, want))
			}
		}
		if hasTerminatingPod(state) {
			missing = append(missing, "a pod is still on its way out")
		}
		if orphan := findOrphan(state); orphan != "" {
			missing = append(missing, orphan+" has no owner any more and is still there")
		}
		last := w.lastChange(state)
		if len(missing) == 0 && time.Since(last) > quietPeriod {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stuck %s after the last fault: %s; last change %s ago", settleTimeout,
				strings.Join(missing, ", "), time.Since(last).Round(time.Millisecond))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// lastChange is when the operator last asked for a change, or anybody made one.
func (w *world) lastChange(s watcher.State) time.Time {
	last := time.Unix(0, w.lastWrite.Load())
	if e, ok := s.Last(); ok && e.ObservedAt.After(last) {
		last = e.ObservedAt
	}
	return last
}

// reference is what clean runs of scenarios have in common, by step.
type reference struct {
	learned, failed atomic.Bool
	states          map[string]oracle.Reference
	counts          map[string][]oracle.Counts
	// writes are all that any of them made.
	writes map[string][]string
}

func (r *reference) ready() bool { return r.learned.Load() }

// learn plays scenarios without faults, each a few times at once.
func (r *reference) learn(t *testing.T, g *testCluster, runs int, selected ...[]step) {
	t.Helper()
	r.states, r.counts, r.writes = map[string]oracle.Reference{}, map[string][]oracle.Counts{}, map[string][]string{}
	results := make([][]stepResult, runs*len(selected))
	runParallel(t, len(results), func(t *testing.T, i int) {
		w := newWorld(t, g)
		for _, s := range selected[i/runs] {
			m, err := w.runStep(t.Context(), s, faultHooks{})
			if err != nil {
				t.Fatalf("a clean run, %s: %v", s.name, err)
			}
			results[i] = append(results[i], m)
		}
	})
	defer func() { r.failed.Store(!r.ready()) }()
	for i, steps := range selected {
		if !r.combineRuns(t, steps, results[i*runs:(i+1)*runs]) {
			return
		}
	}
	r.learned.Store(true)
}

// combineRuns finds what runs of one scenario have in common, if all came to its end.
func (r *reference) combineRuns(t *testing.T, steps []step, runs [][]stepResult) bool {
	t.Helper()
	var all []oracle.Reference
	for i, s := range steps {
		if slices.ContainsFunc(runs, func(m []stepResult) bool { return len(m) <= i }) {
			return false
		}
		var states []oracle.Snapshot
		var counts []oracle.Counts
		var writes []string
		for _, run := range runs {
			states, counts, writes = append(states, run[i].snapshot), append(counts, run[i].counts), append(writes, run[i].writes...)
		}
		common, err := oracle.Learn(states...)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			return false
		}
		slices.Sort(writes)
		all = append(all, common)
		r.counts[s.name], r.writes[s.name] = counts, slices.Compact(writes)
	}
	oracle.ShareMasks(all, variableFields(steps)...)
	for i, s := range steps {
		r.states[s.name] = all[i]
	}
	return true
}

// variableFields are the fields that differ by what was seen first although clean runs may agree. A
// component that needs a database is held back for a moment when the database is not yet seen
// to be ready under its new name; that costs one more write of its annotations, which the
// ReplicaSet before keeps.
func variableFields(steps []step) []string {
	if !isDataStep(steps[0].name) {
		return nil
	}
	return []string{"Deployment.metadata.generation", "Deployment.status.observedGeneration",
		"ReplicaSet.metadata.annotations.apps.holdfast.dev/previous-depends-on", "ReplicaSet.metadata.managedFields.kube-controller-manager Update "}
}

// runParallel runs parts of a test at once, each as a test of its own.
func runParallel(t *testing.T, n int, f func(t *testing.T, i int)) {
	t.Helper()
	done := make(chan bool)
	for i := range n {
		go func() {
			t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) { f(t, i) })
			done <- true
		}()
	}
	for range n {
		<-done
	}
}

// compare says how a moment differs from clean runs.
func (r *reference) compare(step string, m stepResult) []string {
	for !r.ready() {
		if r.failed.Load() {
			return []string{"there is no clean run to compare with"}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return append(r.states[step].Diff(m.snapshot), m.counts.Diff(r.counts[step]...)...)
}
