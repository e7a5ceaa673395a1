// Package faults proves what the operator does when everything around it goes wrong: it is
// killed at every write, its writes are refused, lost or answered by nobody, and it is shown
// the past. Whatever it is, the end must be that of a run in which nothing went wrong.
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

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

var (
	howMany = flag.Int("plans", 56, "how many plans to play, drawn by chance; 0 for all")
	seed    = flag.Uint64("seed", 1, "of everything that is drawn by chance")
	replay  = flag.String("replay", "", "plays one plan, for example crash,upgrade,apply:deployments.apps/solo:1,before")
	only    = flag.String("kinds", "", "plays plans of some kinds only, separated by commas")
	begins  = flag.String("steps", "", "plays plans of steps only whose names begin so, data- for example")
	workers = flag.Int("workers", 6, "how many runs at once")
	update  = flag.Bool("update", false, "write testdata/writes.txt")
	clean   = flag.Int("clean", 2, "how many clean runs to learn from")
)

//go:embed testdata/writes.txt
var knownWrites string

func TestMain(m *testing.M) { stage.Main(m) }

// TestPlans plays plans, by default a sample of less than two minutes.
func TestPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	t.Parallel()
	start := time.Now()
	g := newGround(t, operator.Build(t, true))
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{}
	if *howMany == 0 && *replay == "" && *begins == "" || *update {
		r.learn(t, g, *clean, scenarios...)
		writes = r.writes
	}
	if *update {
		if err := os.WriteFile("testdata/writes.txt", []byte(printWrites(writes)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	generated := generate(writes, *seed)
	p := newPool(choose(t, generated), maxTries())
	needed := p.scenarios() // before anybody takes plans out
	var all sync.WaitGroup
	if !r.ready() {
		all.Go(func() { r.learn(t, g, *clean, needed...) })
	}
	for i := range *workers {
		all.Go(func() { p.work(t, g, r, i) })
	}
	all.Wait()
	p.report(t, generated, start)
	if p.left > 0 {
		t.Errorf("%d plans were not played", p.left)
	}
}

// choose returns the plans that this run is about.
func choose(t *testing.T, plans []plan) []plan {
	t.Helper()
	if *replay != "" {
		p, err := parsePlan(*replay)
		if err != nil {
			t.Fatal(err)
		}
		return []plan{p}
	}
	if *only != "" {
		kinds := strings.Split(*only, ",")
		plans = slices.DeleteFunc(slices.Clone(plans), func(p plan) bool { return !slices.Contains(kinds, p.kind) })
	}
	plans = slices.DeleteFunc(slices.Clone(plans), func(p plan) bool { return !strings.HasPrefix(p.step, *begins) })
	if *howMany > 0 {
		plans = sample(plans, *howMany, *seed)
	}
	return plans
}

// names of the tests of the battery that the kinds of plans are.
var names = map[string]string{
	crash: "1 crash at every write", crash2: "2 double crash", lost: "3 lost reply", refuse: "4 error matrix",
	travel: "5 time travel", unseen: "6 unobserved", lag: "7 late events", relist: "9 relist in every step",
}

// groups are all that plans are counted in.
func groups() []string {
	all := slices.Clone(kindsOfPlans)
	for _, kind := range kindsOfPlans {
		all = append(all, kind+ofData)
	}
	return all
}

// report prints what was played, and leaves it where it can be read.
func (p *pool) report(t *testing.T, generated []plan, start time.Time) {
	counts := p.tally()
	fmt.Printf("%-30s %9s %6s %7s %7s %8s\n", "test", "generated", "run", "failed", "missed", "minutes")
	for _, group := range groups() {
		c := counts[group]
		if c == nil {
			continue
		}
		all := 0
		for _, g := range generated {
			if g.group() == group {
				all++
			}
		}
		struck := c.run - len(c.missed)
		kind, data := strings.CutSuffix(group, ofData)
		name := names[kind]
		if data {
			name += ofData
		}
		fmt.Printf("%-30s %9d %6d %7d %7d %8.1f\n", name, all, struck, len(c.failed), len(c.missed), c.took.Minutes())
		report.Write(t, strings.ReplaceAll(group, ", ", "-"), report.Row{Test: name, Generated: all, Run: struck, Failed: len(c.failed),
			Seconds: c.took.Seconds(), Seed: *seed, Failures: c.failed, Missed: c.missed})
	}
	fmt.Printf("seed %d, %.1f minutes\n", *seed, time.Since(start).Minutes())
}
