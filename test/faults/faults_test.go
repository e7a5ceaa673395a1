// Package faults tests the operator with injected faults: it is killed at every write, its writes are rejected or lose
// their response, and it is served stale reads. The final state must always equal that of a run without faults.
package faults

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

var (
	planCount  = flag.Int("plans", 56, "number of random plans to run; 0 for all")
	seed       = flag.Uint64("seed", testutil.Seed(), "seed of all random choices")
	replay     = flag.String("replay", "", "run one plan, for example crash,upgrade,apply:deployments.apps/solo:1,before")
	kindFilter = flag.String("kinds", "", "comma-separated kinds of plans to run")
	stepPrefix = flag.String("steps", "", "run only plans of steps with this name prefix, for example data-")
	workers    = flag.Int("workers", 6, "number of concurrent runs")
	update     = flag.Bool("update", false, "write testdata/writes.txt")
	cleanRuns  = flag.Int("clean", 2, "number of clean runs to learn the expected state from")
)

//go:embed testdata/writes.txt
var knownWrites string

func TestMain(m *testing.M) { harness.Main(m) }

// TestPlans runs plans; the default sample takes less than two minutes.
func TestPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	t.Parallel()
	start := time.Now()
	g := newTestCluster(t, operator.Build(t, true))
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{}
	if *planCount == 0 && *replay == "" && *stepPrefix == "" || *update {
		r.learn(t, g, *cleanRuns, scenarios...)
		writes = r.writes
	}
	if *update {
		if err := os.WriteFile("testdata/writes.txt", []byte(formatWrites(writes)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	generated := generatePlans(writes, *seed)
	p := newPool(selectPlans(t, generated), maxPlanAttempts())
	needed := p.scenariosNeeded() // before plans are taken
	var group sync.WaitGroup
	if !r.ready() {
		group.Go(func() { r.learn(t, g, *cleanRuns, needed...) })
	}
	for i := range *workers {
		group.Go(func() { p.runWorker(t, g, r, i) })
	}
	group.Wait()
	p.printReport(t, generated, start)
	if p.remaining > 0 {
		t.Errorf("%d plans were not run", p.remaining)
	}
}

// selectPlans returns the plans of this run.
func selectPlans(t *testing.T, plans []plan) []plan {
	t.Helper()
	if *replay != "" {
		p, err := parsePlan(*replay)
		if err != nil {
			t.Fatal(err)
		}
		return []plan{p}
	}
	if *kindFilter != "" {
		kinds := strings.Split(*kindFilter, ",")
		plans = slices.DeleteFunc(slices.Clone(plans), func(p plan) bool { return !slices.Contains(kinds, p.kind) })
	}
	plans = slices.DeleteFunc(slices.Clone(plans), func(p plan) bool { return !strings.HasPrefix(p.step, *stepPrefix) })
	if *planCount > 0 {
		plans = samplePlans(plans, *planCount, *seed)
	}
	return plans
}

// testNames are the row names of the kinds of plans.
var testNames = map[string]string{
	crash: "1 crash at every write", doubleCrash: "2 double crash", lostResponse: "3 lost response", errorResponse: "4 error matrix",
	staleRestart: "5 stale restart", missedEvents: "6 missed events", delayedEvents: "7 delayed events", expiredWatches: "9 expired watches",
}

// planGroups returns all groups by which plans are counted.
func planGroups() []string {
	all := slices.Clone(planKinds)
	for _, kind := range planKinds {
		all = append(all, kind+dataSuffix)
	}
	return all
}

// printReport prints the results and writes them to the report directory.
func (p *pool) printReport(t *testing.T, generated []plan, start time.Time) {
	counts := p.countByGroup()
	fmt.Printf("%-30s %9s %6s %7s %7s %8s\n", "test", "generated", "run", "failed", "missed", "minutes")
	for _, group := range planGroups() {
		c := counts[group]
		if c == nil {
			continue
		}
		total := 0
		for _, g := range generated {
			if g.group() == group {
				total++
			}
		}
		injected := c.run - len(c.notInjected)
		kind, data := strings.CutSuffix(group, dataSuffix)
		name := testNames[kind]
		if data {
			name += dataSuffix
		}
		fmt.Printf("%-30s %9d %6d %7d %7d %8.1f\n", name, total, injected, len(c.failed), len(c.notInjected), c.duration.Minutes())
		report.Write(t, strings.ReplaceAll(group, ", ", "-"), report.Row{Test: name, Generated: total, Run: injected, Failed: len(c.failed),
			Seconds: c.duration.Seconds(), Seed: *seed, Failures: c.failed, NotInjected: c.notInjected})
	}
	fmt.Printf("seed %d, %.1f minutes\n", *seed, time.Since(start).Minutes())
}
