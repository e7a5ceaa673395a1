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
	// quiet is how long nobody may change anything until a step counts as settled.
	quiet = 3 * time.Second
	// settles is how long that may take after the last fault.
	settles = 45 * time.Second
)

// moment is what a world was like when a step had settled.
type moment struct {
	state  oracle.State
	counts oracle.Counts
	// writes are those of the operator during the step, as a plan names them.
	writes []string
}

// play plays a step with something going wrong and returns what became of it. An error says
// that it never settled, or that something happened that must not.
func (w *world) play(ctx context.Context, s step, t trouble) (moment, error) {
	from := len(w.seen.Events())
	mark, err := w.ground.log.Mark(ctx, w.ground.plane.Config)
	if err != nil {
		return moment{}, err
	}
	var heard sync.Mutex
	var writes []string
	w.arm(func(write proxy.Write) *proxy.Fault {
		heard.Lock()
		defer heard.Unlock()
		writes = append(writes, write.String())
		return nil
	})
	defer w.arm(nil)
	if t.begin != nil {
		t.begin()
	}
	if err := s.do(w.user, ctx); err != nil {
		return moment{}, fmt.Errorf("the user cannot %s: %w", s.name, err)
	}
	w.lastWrite.Store(time.Now().UnixNano()) // what the user did counts too
	err = w.endure(ctx, s, t, from)
	heard.Lock()
	defer heard.Unlock()
	m := moment{writes: writes}
	// What is unsafe says more than that something is stuck, which often follows from it.
	err = errors.Join(w.judge(ctx, &m, from, mark), err)
	return m, err
}

// endure lets things go wrong, and waits until the step has settled all the same.
func (w *world) endure(ctx context.Context, s step, t trouble, from int) error {
	if t.meanwhile != nil {
		if err := t.meanwhile(ctx); err != nil {
			return err
		}
	}
	if err := w.settle(ctx, s); err != nil || t.after == nil {
		return err
	}
	if err := t.after(ctx, from); err != nil {
		return err
	}
	return w.settle(ctx, s)
}

// judge takes a picture and looks for what must never happen.
func (w *world) judge(ctx context.Context, m *moment, from int, mark audit.Position) error {
	state := w.seen.State()
	events := state.Events()
	var objects []*unstructured.Unstructured
	for _, resource := range watched {
		objects = append(objects, state.Live(resource)...)
	}
	m.state, m.counts = oracle.StateOf(w.namespace, objects), oracle.CountsOf(events[from:])
	requests, err := w.ground.log.About(w.namespace).Since(ctx, w.ground.plane.Config, mark)
	if err != nil {
		return err
	}
	timeline := oracle.TimelineOf(events)
	wrong := oracle.Safety(w.namespace, timeline, requests.By(w.account))
	wrong = append(wrong, oracle.Honesty(timeline)...)
	wrong = append(wrong, guard.look(timeline)...)
	wrong = append(wrong, lockedOut(events, w.ground.databases)...)
	if len(wrong) > 0 {
		return fmt.Errorf("unsafe:\n  %s", strings.Join(wrong, "\n  "))
	}
	return nil
}

// settle waits until a step has had its effect and nobody changes anything any more.
func (w *world) settle(ctx context.Context, s step) error {
	deadline := time.Now().Add(settles)
	for {
		state := w.seen.State()
		var missing []string
		for app, want := range s.want {
			kind, name, _ := strings.Cut(app, "/")
			if got := conditionOf(state, w.namespace, kind, name); got != want {
				missing = append(missing, fmt.Sprintf("%s is %s instead of %s", app, got, want))
			}
		}
		if terminating(state) {
			missing = append(missing, "a pod is still on its way out")
		}
		if left := orphaned(state); left != "" {
			missing = append(missing, left+" has no owner any more and is still there")
		}
		last := w.lastChange(state)
		if len(missing) == 0 && time.Since(last) > quiet {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("stuck %s after the last fault: %s; last change %s ago", settles,
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
	if e, ok := s.Last(); ok && e.Seen.After(last) {
		last = e.Seen
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
func (r *reference) learn(t *testing.T, g *ground, runs int, which ...[]step) {
	t.Helper()
	r.states, r.counts, r.writes = map[string]oracle.Reference{}, map[string][]oracle.Counts{}, map[string][]string{}
	moments := make([][]moment, runs*len(which))
	together(t, len(moments), func(t *testing.T, i int) {
		w := newWorld(t, g)
		for _, s := range which[i/runs] {
			m, err := w.play(t.Context(), s, trouble{})
			if err != nil {
				t.Fatalf("a clean run, %s: %v", s.name, err)
			}
			moments[i] = append(moments[i], m)
		}
	})
	defer func() { r.failed.Store(!r.ready()) }()
	for i, steps := range which {
		if !r.compile(t, steps, moments[i*runs:(i+1)*runs]) {
			return
		}
	}
	r.learned.Store(true)
}

// compile finds what runs of one scenario have in common, if all came to its end.
func (r *reference) compile(t *testing.T, steps []step, moments [][]moment) bool {
	t.Helper()
	var all []oracle.Reference
	for i, s := range steps {
		if slices.ContainsFunc(moments, func(m []moment) bool { return len(m) <= i }) {
			return false
		}
		var states []oracle.State
		var counts []oracle.Counts
		var writes []string
		for _, run := range moments {
			states, counts, writes = append(states, run[i].state), append(counts, run[i].counts), append(writes, run[i].writes...)
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
	oracle.Join(all, varies(steps)...)
	for i, s := range steps {
		r.states[s.name] = all[i]
	}
	return true
}

// varies are the fields that differ by what was seen first although clean runs may agree. A
// component that needs a database is held back for a moment when the database is not yet seen
// to be ready under its new name; that costs one more write of its annotations, which the
// ReplicaSet before keeps.
func varies(steps []step) []string {
	if !isData(steps[0].name) {
		return nil
	}
	return []string{"Deployment.metadata.generation", "Deployment.status.observedGeneration",
		"ReplicaSet.metadata.annotations.apps.holdfast.dev/depended-on", "ReplicaSet.metadata.managedFields.kube-controller-manager Update "}
}

// together runs parts of a test at once, each as a test of its own.
func together(t *testing.T, n int, f func(t *testing.T, i int)) {
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
func (r *reference) compare(step string, m moment) []string {
	for !r.ready() {
		if r.failed.Load() {
			return []string{"there is no clean run to compare with"}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return append(r.states[step].Diff(m.state), m.counts.Diff(r.counts[step]...)...)
}
