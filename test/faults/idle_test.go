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

// TestIdleOperatorSendsNoRequests runs plans and then checks that the operator sends neither reads nor writes once it is
// idle.
func TestIdleOperatorSendsNoRequests(t *testing.T) {
	if !isLongRun() {
		t.Skip("observes for minutes: make faults runs it; every plan observes for 3 s")
	}
	t.Parallel()
	start := time.Now()
	idlePeriod := 10 * time.Minute
	g := newTestCluster(t, operator.Build(t, true))
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	plans := samplePlans(generatePlans(writes, *seed), len(allSteps()), *seed)
	failed := make([]bool, 2)
	played := make([]int, len(failed))
	runParallel(t, len(failed), func(t *testing.T, i int) {
		w := newWorld(t, g)
		for _, s := range scenario[:10] { // up to the state with all objects
			if s.name == "conflict" {
				break
			}
			p := plans[slices.IndexFunc(plans, func(p plan) bool { return p.step == s.name })]
			if _, err := w.runStep(t.Context(), s, w.hooksFor(p, &injectionFlag{})); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			played[i]++
		}
		failed[i] = !w.staysIdle(t, idlePeriod)
	})
	failures := 0
	for _, f := range failed {
		if f {
			failures++
		}
	}
	report.WriteTimed(t, start, report.Row{Test: "19 quiescence", Generated: len(failed), Run: len(failed), Failed: failures, Seed: *seed,
		Measured: fmt.Sprintf("after %d plans: no request but watches, no resourceVersion changed for %s", played[0]+played[1], idlePeriod)})
}

// staysIdle reports whether there are no requests and no changes for a while.
func (w *world) staysIdle(t *testing.T, idlePeriod time.Duration) bool {
	t.Helper()
	mark, err := w.cluster.log.Mark(t.Context(), w.cluster.plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	before := w.resourceVersions()
	time.Sleep(idlePeriod) // no event shows that nothing happens
	requests, err := w.cluster.log.WithSubstring(w.namespace).Since(t.Context(), w.cluster.plane.Config, mark)
	if err != nil {
		t.Fatal(err)
	}
	unexpected := requests.By(w.operatorUser).Where(func(e *audit.Event) bool { return e.Verb != "watch" })
	if len(unexpected) > 0 {
		t.Errorf("the idle operator sent requests:\n%s", unexpected.Count())
	}
	unchanged := maps.Equal(before, w.resourceVersions())
	if !unchanged {
		t.Errorf("resourceVersions changed: got %v, want %v", w.resourceVersions(), before)
	}
	return unchanged && len(unexpected) == 0
}

func (w *world) resourceVersions() map[string]string {
	versions := map[string]string{}
	state := w.watcher.State()
	for _, resource := range watched {
		for _, o := range state.Live(resource) {
			versions[resource.Resource+"/"+o.GetName()] = o.GetResourceVersion()
		}
	}
	return versions
}
