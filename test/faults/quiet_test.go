package faults

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// TestQuiet plays plans and then listens: an operator that has what it wants is silent.
// Whatever went wrong before, it neither writes nor asks.
func TestQuiet(t *testing.T) {
	if !long() {
		t.Skip("listens for minutes: make faults runs it; every plan listens for 3 s")
	}
	t.Parallel()
	start := time.Now()
	still := 10 * time.Minute
	g := newGround(t, operator.Build(t, true))
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	drawn := sample(generate(writes, *seed), len(allSteps()), *seed)
	failed := make([]bool, 2)
	played := make([]int, len(failed))
	together(t, len(failed), func(t *testing.T, i int) {
		w := newWorld(t, g)
		for _, s := range scenario[:10] { // up to where everything is there
			if s.name == "conflict" {
				break
			}
			p := drawn[slices.IndexFunc(drawn, func(p plan) bool { return p.step == s.name })]
			if _, err := w.play(t.Context(), s, w.trouble(p, &struck{})); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			played[i]++
		}
		failed[i] = !w.staysQuiet(t, still)
	})
	bad := 0
	for _, f := range failed {
		if f {
			bad++
		}
	}
	report.Since(t, start, report.Row{Test: "19 quiescence", Generated: len(failed), Run: len(failed), Failed: bad, Seed: *seed,
		Seen: fmt.Sprintf("after %d plans: no request but watches, no resourceVersion changed for %s", played[0]+played[1], still)})
}

// staysQuiet says whether nothing is asked of the API server, and nothing changes, for a
// while.
func (w *world) staysQuiet(t *testing.T, still time.Duration) bool {
	t.Helper()
	mark, err := w.ground.log.Mark(t.Context(), w.ground.plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	before := w.versions()
	time.Sleep(still)
	requests, err := w.ground.log.About(w.namespace).Since(t.Context(), w.ground.plane.Config, mark)
	if err != nil {
		t.Fatal(err)
	}
	asked := requests.By(w.account).Where(func(e *audit.Event) bool { return e.Verb != "watch" })
	if len(asked) > 0 {
		t.Errorf("the operator asks although nothing happens:\n%s", asked.Count())
	}
	same := maps.Equal(before, w.versions())
	if !same {
		t.Errorf("resourceVersions have changed: %v, before %v", w.versions(), before)
	}
	return same && len(asked) == 0
}

func (w *world) versions() map[string]string {
	versions := map[string]string{}
	state := w.seen.State()
	for _, resource := range watched {
		for _, o := range state.Live(resource) {
			versions[resource.Resource+"/"+o.GetName()] = o.GetResourceVersion()
		}
	}
	return versions
}
