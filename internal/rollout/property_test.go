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

// TestProperties plays the planner against applications that are edited and whose pods
// fall over at random. See check for what must hold of every plan. When the edits end and
// everything that lives gets well, the spec has to come true and nothing else may be left.
// Some are deleted instead: in order, and all of it.
func TestProperties(t *testing.T) {
	n := 100_000
	if testing.Short() || raceDetector {
		n = 5_000
	}
	playAll(t, quick{}, n)
}

// TestPropertiesOfRealChildren is the same with the children that package desired makes.
func TestPropertiesOfRealChildren(t *testing.T) {
	n := 500
	if testing.Short() || raceDetector {
		n = 50
	}
	playAll(t, full{}, n)
}

func playAll(t *testing.T, m maker, n int) {
	t.Helper()
	if *seed != 0 {
		if err := play(*seed, m, t.Logf); err != nil {
			t.Error(err)
		}
		return
	}
	if *graphs != 0 {
		n = *graphs
	}
	var next, bad atomic.Uint64
	bad.Store(math.MaxUint64)
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for s := next.Add(1); s <= uint64(n) && bad.Load() == math.MaxUint64; s = next.Add(1) {
				if play(s, m, nil) != nil {
					bad.Store(s)
				}
			}
		})
	}
	group.Wait()
	if s := bad.Load(); s != math.MaxUint64 {
		var story []string
		err := play(s, m, func(format string, args ...any) { story = append(story, fmt.Sprintf(format, args...)) })
		t.Fatalf("seed %d: %v\n%s\nReplay it: go test ./internal/rollout -run '^%s$' -v -seed %d", s, err, strings.Join(story, "\n"), t.Name(), s)
	}
}

// play plays one application from its creation to its rest.
func play(seed uint64, m maker, trace func(string, ...any)) error {
	w := newWorld(seed, m, trace)
	for range 3 + w.IntN(8) {
		for range w.IntN(3) {
			w.edit()
		}
		for range w.IntN(2*len(w.ids) + 1) {
			w.happen()
		}
		writes := math.MaxInt
		if w.may(6) {
			writes = w.IntN(8)
		}
		if err := w.round(writes); err != nil {
			return err
		}
	}
	if seed%4 == 0 {
		return w.tearDown()
	}
	return w.comeToRest()
}

// comeToRest ends all edits and troubles and waits for the spec to come true.
func (w *world) comeToRest() error {
	w.calm()
	var err error
	// Each wave needs a round to be applied, and each that left one to go; those whose pods
	// are new need one more until nobody can see any more what the old ones needed.
	for range 2*(len(w.parts)+len(w.ids)) + 4 {
		w.heal()
		p, failed := w.plan()
		if failed != nil {
			return failed
		}
		if err = w.atRest(p); err == nil {
			return nil
		}
		w.execute(p, math.MaxInt)
	}
	return fmt.Errorf("everything is well, and it does not come to rest: %w", err)
}

// tearDown deletes the application, in whatever state it is.
func (w *world) tearDown() error {
	for range 2*len(w.ids) + 4 {
		d := Down(shop, w.seen)
		if again := Down(shop, w.seen); !reflect.DeepEqual(d, again) {
			return fmt.Errorf("the same input is deleted in two ways: %+v and %+v", d, again)
		}
		if w.trace != nil {
			w.trace("down: %s", strings.Join(downLines(d), "; "))
		}
		if err := w.checkDown(d); err != nil || d.Done {
			return err
		}
		for _, id := range slices.Clone(w.ids) {
			if w.seen[id].GetDeletionTimestamp() != nil {
				w.gone(id)
			}
		}
		for _, r := range d.Delete {
			w.remove(r.Child)
		}
	}
	return errors.New("it is never all deleted")
}

// round plans, and does what was planned.
func (w *world) round(writes int) error {
	p, err := w.plan()
	if err == nil {
		w.execute(p, writes)
	}
	return err
}

// plan plans twice, because the same input must give the same plan, and checks it.
func (w *world) plan() (Plan, error) {
	in := Input{Owner: shop, Components: w.spec, Seen: w.seen, KeepJobs: w.keep}
	p, err := For(in)
	if err != nil {
		return p, err
	}
	again, err := For(in)
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
		for _, part := range w.parts {
			w.trace("  %s", part)
		}
		for _, line := range lines(p) {
			w.trace("plan: %s", line)
		}
	}
	if !reflect.DeepEqual(p, again) {
		return p, fmt.Errorf("the same input gives two plans: %+v and %+v", p, again)
	}
	return p, w.check(p)
}
