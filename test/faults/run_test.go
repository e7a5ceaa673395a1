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
	// quietPeriod without changes means that a step has settled.
	quietPeriod = 3 * time.Second
	// settleTimeout is the maximum time until a step settles after the last fault.
	settleTimeout = 45 * time.Second
)

// stepResult is the state after a step has settled.
type stepResult struct {
	snapshot oracle.Snapshot
	counts   oracle.Counts
	// writes are the operator's writes during the step, as named in plans.
	writes []string
}

// runStep runs a step with faults and returns the result. It fails if the step does not settle or an invariant is
// violated.
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
	w.lastWrite.Store(time.Now().UnixNano()) // changes by the user count, too
	err = w.injectAndSettle(ctx, s, hooks, from)
	writesMu.Lock()
	defer writesMu.Unlock()
	m := stepResult{writes: writes}
	// Report violations first: a stuck step is often a consequence.
	err = errors.Join(w.checkInvariants(ctx, &m, from, mark), err)
	return m, err
}

// injectAndSettle injects faults and waits until the step has settled.
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

// checkInvariants takes a snapshot and checks the invariants.
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

// waitSettled waits for the expected state of a step and a period without changes.
func (w *world) waitSettled(ctx context.Context, s step) error {
	deadline := time.Now().Add(settleTimeout)
	for {
		state := w.watcher.State()
		var missing []string
		for app, want := range s.want {
			kind, name, _ := strings.Cut(app, "/")
			if got := observedStatus(state, w.namespace, kind, name); got != want {
				missing = append(missing, fmt.Sprintf("%s is %s, want %s", app, got, want))
			}
		}
		if hasTerminatingPod(state) {
			missing = append(missing, "a pod is still terminating")
		}
		if orphan := findOrphan(state); orphan != "" {
			missing = append(missing, orphan+" is not deleted with its owner")
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
		time.Sleep(100 * time.Millisecond) // no event shows that nothing changes
	}
}

// lastChange returns the time of the last write of the operator or change of an object.
func (w *world) lastChange(s watcher.State) time.Time {
	last := time.Unix(0, w.lastWrite.Load())
	if e, ok := s.Last(); ok && e.ObservedAt.After(last) {
		last = e.ObservedAt
	}
	return last
}

// reference is the expected state of each step, learned from clean runs.
type reference struct {
	learned, failed atomic.Bool
	states          map[string]oracle.Reference
	counts          map[string][]oracle.Counts
	// writes are the writes of all clean runs.
	writes map[string][]string
}

func (r *reference) ready() bool { return r.learned.Load() }

// learn runs scenarios without faults, each several times in parallel.
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

// combineRuns learns from the runs of one scenario if all completed.
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

// variableFields returns fields that depend on the order of events although clean runs may agree. A dependent of a
// renamed database waits if the database is not yet observed to be ready under its new name; this takes an additional
// write of its annotations, which the previous ReplicaSet keeps.
func variableFields(steps []step) []string {
	if !isDataStep(steps[0].name) {
		return nil
	}
	return []string{"Deployment.metadata.generation", "Deployment.status.observedGeneration",
		"ReplicaSet.metadata.annotations.apps.holdfast.dev/previous-depends-on", "ReplicaSet.metadata.managedFields.kube-controller-manager Update "}
}

// runParallel runs n parallel subtests.
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

// compare returns the differences to clean runs.
func (r *reference) compare(step string, m stepResult) []string {
	for !r.ready() {
		if r.failed.Load() {
			return []string{"no clean run to compare with"}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return append(r.states[step].Diff(m.snapshot), m.counts.Diff(r.counts[step]...)...)
}
