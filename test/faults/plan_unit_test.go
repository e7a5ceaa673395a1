package faults

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePlan(t *testing.T) {
	for _, line := range []string{
		"crash,install-stack,apply:deployments.apps/shop-web:1,before", "crash2,upgrade,apply:deployments.apps/solo:1,after,2,before",
		"lost,scale,patch:controllerrevisions.apps:1", "error,edge,create:secrets:1,reset", "travel,rename,15,apps",
		"unseen,delete,pods", "lag,config,300", "relist,conflict", "crash,data-grow,delete:statefulsets.apps/vault-db:1,unanswered",
	} {
		p, err := parsePlan(line)
		if err != nil || p.String() != line {
			t.Errorf("parse %s: got %s, %v", line, p, err)
		}
	}
	for line, want := range map[string]string{
		"boom,upgrade,x":       "is not a plan",
		"crash":                "is not a plan",
		"crash,nowhere,x,y":    `unknown step "nowhere"`,
		"crash,upgrade,x":      "has 2 arguments",
		"relist,upgrade,extra": "has 0 arguments",
	} {
		if _, err := parsePlan(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// TestGenerateIsCompleteAndRepeatable checks that every write has plans of every kind, and that a seed determines the
// sample.
func TestGenerateIsCompleteAndRepeatable(t *testing.T) {
	writes := map[string][]string{"upgrade": {"a", "b"}, "scale": {"c"}}
	plans := generatePlans(writes, 7)
	counts := map[string]int{}
	distinct := map[string]bool{}
	for _, p := range plans {
		counts[p.kind]++
		distinct[p.String()] = true
	}
	steps := len(allSteps())
	want := map[string]int{
		crash: 3 * 3, doubleCrash: 3 * 2, lostResponse: 3, errorResponse: 3 * len(errorCodes), staleRestart: steps * len(staleRestartPercents) * len(staleRestartScopes),
		missedEvents: len(scenario)*len(watchedResources) + (len(dataScenario)+len(databaseScenario))*len(dataResources), delayedEvents: 2 * steps, expiredWatches: steps,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	if len(distinct) != len(plans) {
		t.Errorf("got %d distinct plans of %d, want all distinct", len(distinct), len(plans))
	}
	lines := func(plans []plan) (all []string) {
		for _, p := range plans {
			all = append(all, p.String())
		}
		return all
	}
	if diff := cmp.Diff(lines(plans), lines(generatePlans(writes, 7))); diff != "" {
		t.Error(diff)
	}
	sampled := samplePlans(plans, 56, 7)
	byStep := map[string]int{}
	distinct = map[string]bool{}
	for _, p := range sampled {
		byStep[p.step]++
		distinct[p.String()] = true
	}
	if len(distinct) != 56 || byStep["upgrade"] != 2 || byStep["delete-again"] != 2 || byStep["data-grow"] != 2 {
		t.Errorf("got %d distinct plans, by step %v", len(distinct), byStep)
	}
	if diff := cmp.Diff(lines(sampled), lines(samplePlans(plans, 56, 7))); diff != "" {
		t.Error(diff)
	}
	if got := len(samplePlans(plans, len(plans)+1, 7)); got != len(plans) {
		t.Errorf("got a sample of %d plans, want %d", got, len(plans))
	}
}

func TestWritesFileCoversAllSteps(t *testing.T) {
	writes, err := parseWrites(knownWrites)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(knownWrites, formatWrites(writes)); diff != "" {
		t.Errorf("testdata/writes.txt has unknown steps or another order: %s", diff)
	}
	for _, s := range allSteps() {
		if len(writes[s.name]) == 0 {
			t.Errorf("testdata/writes.txt has no write of %s: go test ./test/faults -run TestPlans -update", s.name)
		}
	}
}

func TestPoolKeepsUnrunPlans(t *testing.T) {
	plans := []plan{{expiredWatches, "scale", nil}, {expiredWatches, "edge", nil}, {delayedEvents, "scale", []string{"1"}}}
	p := newPool(plans, 1)
	_, first := p.takePlans()
	if diff := cmp.Diff(map[string]string{"scale": "relist,scale", "edge": "relist,edge"}, planLines(first)); diff != "" {
		t.Error(diff)
	}
	// The run ended in step scale, so that step edge did not run.
	p.recordResult(t, planResult{plan: first["scale"]})
	delete(first, "scale")
	p.requeue(first)
	_, second := p.takePlans()
	if diff := cmp.Diff(map[string]string{"scale": "lag,scale,1", "edge": "relist,edge"}, planLines(second)); diff != "" {
		t.Error(diff)
	}
	for _, plan := range second {
		p.recordResult(t, planResult{plan: plan, notInjected: plan.kind == expiredWatches})
	}
	if _, rest := p.takePlans(); p.remaining != 0 || len(rest) != 0 {
		t.Errorf("got %d remaining plans", p.remaining)
	}
	counts := p.countByGroup()
	if counts[expiredWatches].run != 2 || len(counts[expiredWatches].notInjected) != 1 || counts[delayedEvents].run != 1 {
		t.Errorf("got counts %+v %+v", counts[expiredWatches], counts[delayedEvents])
	}
}

func planLines(plans map[string]plan) map[string]string {
	lines := map[string]string{}
	for step, p := range plans {
		lines[step] = p.String()
	}
	return lines
}
