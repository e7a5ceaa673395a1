// Package planaccuracy compares kubectl holdfast plan with what the operator then does. Random edits of applications are
// planned and applied with kubectl. The audit log of the API server must show exactly the planned changes: the same
// objects, the same fields and values, the same replaced pods.
package planaccuracy

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli/plan"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// Without flags only a sample runs; make plan-truth runs all edits.
var (
	editCount = flag.Int("edits", 0, "number of edits; 0 means 15, or 100 with HOLDFAST_LONG=1")
	seed      = flag.Uint64("seed", 1, "seed of the random applications and edits")
	onlyApp   = flag.Int("only", -1, "run only this application")
	showPlans = flag.Bool("show", false, "print every plan")
)

func TestMain(m *testing.M) { harness.Main(m) }

// editTotals counts edits and planned actions.
type editTotals struct {
	mu                                           sync.Mutex
	edits, matches, rejectedEdits                int
	changes, restarts, refusedChanges, recreated int
	deleted, expanded, retained, purged          int
}

// add counts a plan.
func (s *editTotals) add(t planOutput) {
	for _, c := range t.Changes {
		for _, n := range []struct {
			count   *int
			matches bool
		}{
			{&s.changes, c.Action != plan.Unchanged}, {&s.restarts, c.Restarts > 0}, {&s.refusedChanges, c.Action == plan.Rejected},
			{&s.recreated, c.Action == plan.Recreated}, {&s.deleted, c.Action == plan.Deleted}, {&s.expanded, c.Data == "Grows"},
			{&s.retained, c.Data == "Retained"}, {&s.purged, c.Data == "Deleted"},
		} {
			if n.matches {
				*n.count++
			}
		}
	}
}

func TestPlanMatchesOperator(t *testing.T) {
	n, length := 15, 3 // number of edits, and edits per application
	if os.Getenv("HOLDFAST_LONG") != "" {
		n, length = 100, 5
	}
	if *editCount > 0 {
		n = *editCount
	}
	startedAt := time.Now()
	s := harness.New(t, nil, operator.Options{NoRace: true})
	cluster := newTestCluster(t, s)
	var totals editTotals
	t.Run("edits", func(t *testing.T) {
		for i := range (n + length - 1) / length {
			if *onlyApp >= 0 && i != *onlyApp {
				continue
			}
			count := min(length, n-i*length)
			t.Run(fmt.Sprintf("application %d of seed %d", i, *seed), func(t *testing.T) {
				t.Parallel()
				release := cluster.acquireSlot()
				defer release()
				runEdits(t, cluster, i, count, &totals)
			})
		}
	})
	if *onlyApp < 0 {
		t.Run("answers", func(t *testing.T) { testPlanMessages(t, cluster) })
	}
	s.ExpectNoForbiddenRequests(t)
	t.Logf("seed %d: %d edits planned, %d plans correct, in %s: %d object changes, of them %d deleted, %d recreated and %d rejected; %d workloads restarted; "+
		"data: %d expanded, %d retained, %d deleted; %d edits rejected by the API server", *seed, totals.edits, totals.matches, time.Since(startedAt).Round(time.Second),
		totals.changes, totals.deleted, totals.recreated, totals.refusedChanges, totals.restarts, totals.expanded, totals.retained, totals.purged, totals.rejectedEdits)
	if *onlyApp < 0 && totals.edits != n {
		t.Errorf("ran %d edits, want %d", totals.edits, n)
	}
}

// runEdits creates an application and edits it.
func runEdits(t *testing.T, cluster *testCluster, number, count int, totals *editTotals) {
	w := cluster.newWorld(t)
	rng := rand.New(rand.NewPCG(*seed, uint64(number)))
	app := newEditedApp(rng, number)
	w.createApp(app)
	for i := range count {
		next, edits := app.randomEdit(rng)
		description := fmt.Sprintf("edit %d: %s", i+1, strings.Join(edits, "; "))
		mismatches, output := w.planAndApply(next)
		if *showPlans {
			t.Logf("%s\n%s", description, output.text)
		}
		totals.mu.Lock()
		totals.edits++
		totals.add(output)
		if output.rejection != "" {
			totals.rejectedEdits++
		}
		if len(mismatches) == 0 {
			totals.matches++
		}
		totals.mu.Unlock()
		if len(mismatches) > 0 {
			t.Errorf("%s\n%s\n\nplan:\n%s\nmanifest before:\n%s\nmanifest after:\n%s", description, strings.Join(mismatches, "\n"), output.text, app.yaml(), next.yaml())
		}
		if output.rejection == "" {
			app = next
		}
	}
}
