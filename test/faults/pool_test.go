package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// pool hands out plans to runs: one run of a scenario carries a plan in each of its
// steps. Every step begins where the step before has been shown to end as in a clean run,
// so a plan starts as if it were alone.
type pool struct {
	mu                sync.Mutex
	pending           map[string][]plan
	attempts          map[string]int
	maxAttempts       int // how often one is tried that finds nothing to strike
	remaining         int
	results           []planResult
	unplannedFailures int // steps that went wrong although nothing was planned to
}

// maxUnplannedFailures is how many of those end everything: there is nothing left to compare with.
const maxUnplannedFailures = 5

// planResult is what became of a plan.
type planResult struct {
	plan        plan
	notInjected bool // it found nothing to strike
	failure     string
	duration    time.Duration
}

// maxPlanAttempts is how often a plan is tried that found nothing to strike: not every run makes the
// same writes. Of a sample nobody misses one.
func maxPlanAttempts() int {
	if *planCount > 0 && *replay == "" {
		return 1
	}
	return 3
}

func newPool(plans []plan, maxAttempts int) *pool {
	p := &pool{pending: map[string][]plan{}, attempts: map[string]int{}, maxAttempts: maxAttempts, remaining: len(plans)}
	for _, plan := range plans {
		p.pending[plan.step] = append(p.pending[plan.step], plan)
	}
	return p
}

// takePlans takes one plan for each step of the scenario that has most of them left; none is
// left when it is empty.
func (p *pool) takePlans() (steps []step, taken map[string]plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken = map[string]plan{}
	if p.unplannedFailures >= maxUnplannedFailures {
		return nil, taken
	}
	mostRuns := 0
	for _, s := range scenarios {
		if n := p.runsNeeded(s); n > mostRuns {
			steps, mostRuns = s, n
		}
	}
	for _, s := range steps {
		if pending := p.pending[s.name]; len(pending) > 0 {
			taken[s.name], p.pending[s.name] = pending[0], pending[1:]
		}
	}
	return steps, taken
}

// runsNeeded is how many runs of a scenario the plans that wait need.
func (p *pool) runsNeeded(steps []step) int {
	n := 0
	for _, s := range steps {
		n = max(n, len(p.pending[s.name]))
	}
	return n
}

// scenariosNeeded are those that the plans need.
func (p *pool) scenariosNeeded() [][]step {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(scenarios), func(s []step) bool { return p.runsNeeded(s) == 0 })
}

// requeue returns plans that were not played.
func (p *pool) requeue(plans map[string]plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for step, plan := range plans {
		p.pending[step] = append(p.pending[step], plan)
	}
}

// recordResult notes what became of a plan. One that has missed waits for another run.
func (p *pool) recordResult(t *testing.T, r planResult) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := r.plan.String()
	p.attempts[line]++
	if r.notInjected && r.failure == "" && p.attempts[line] < p.maxAttempts {
		p.pending[r.plan.step] = append(p.pending[r.plan.step], r.plan)
		return
	}
	p.remaining--
	p.results = append(p.results, r)
	if r.failure != "" {
		text := fmt.Sprintf("FAILED %s\n  %s", line, strings.ReplaceAll(r.failure, "\n", "\n  "))
		fmt.Println(text) // at once: a run of an hour is not waited for to its end
		t.Error(text)
	}
	if n := len(p.results); n%25 == 0 {
		fmt.Printf("%s  %d plans played, %d left\n", time.Now().Format("15:04:05"), n, p.remaining)
	}
}

// runWorker plays until no plan is left.
func (p *pool) runWorker(t *testing.T, g *testCluster, r *reference, worker int) {
	for run := 0; ; run++ {
		steps, plans := p.takePlans()
		if len(plans) == 0 {
			return
		}
		t.Run(fmt.Sprintf("worker-%d-run-%d", worker, run), func(t *testing.T) {
			p.runScenario(t, g, r, steps, plans)
		})
	}
}

// runScenario plays a scenario up to the last step that has a plan. It ends early when a step
// goes wrong: what follows would only repeat that.
func (p *pool) runScenario(t *testing.T, g *testCluster, r *reference, steps []step, plans map[string]plan) {
	defer func() { p.requeue(plans) }()
	w := newWorld(t, g)
	var stepRuns []stepRun
	for _, s := range steps {
		if len(plans) == 0 {
			break
		}
		stepPlan, planned := plans[s.name]
		delete(plans, s.name)
		var injected injectionFlag
		current := stepRun{step: s.name, planned: planned, plan: stepPlan}
		start := time.Now()
		var hooks faultHooks
		if planned {
			hooks = w.hooksFor(stepPlan, &injected)
		}
		var err error
		current.stepResult, err = w.runStep(t.Context(), s, hooks)
		current.result = planResult{plan: stepPlan, notInjected: !injected.Load(), duration: time.Since(start)}
		if err != nil {
			current.result.failure = err.Error()
		} else if r.ready() {
			current.compareWith(r)
		}
		stepRuns = append(stepRuns, current)
		if current.result.failure != "" {
			break
		}
	}
	for _, current := range stepRuns {
		if current.result.failure == "" {
			current.compareWith(r)
		}
		switch {
		case current.planned:
			p.recordResult(t, current.result)
		case current.result.failure != "":
			text := fmt.Sprintf("FAILED %s, in which nothing was planned to go wrong: %s", current.step, current.result.failure)
			fmt.Println(text)
			t.Error(text)
			p.mu.Lock()
			p.unplannedFailures++
			p.mu.Unlock()
		}
	}
}

// stepRun is a step that was played.
type stepRun struct {
	step       string
	planned    bool
	plan       plan
	stepResult stepResult
	result     planResult
}

func (p *stepRun) compareWith(r *reference) {
	if diff := r.compare(p.step, p.stepResult); len(diff) > 0 {
		p.result.failure = "divergent:\n" + strings.Join(diff, "\n")
	}
}

// countByGroup counts results by kind of plan, those of data apart.
func (p *pool) countByGroup() map[string]*groupCount {
	counts := map[string]*groupCount{}
	for _, r := range p.results {
		c := counts[r.plan.group()]
		if c == nil {
			c = &groupCount{}
			counts[r.plan.group()] = c
		}
		switch {
		case r.failure != "":
			c.failed = append(c.failed, r.plan.String())
		case r.notInjected:
			c.notInjected = append(c.notInjected, r.plan.String())
		}
		c.run++
		c.duration += r.duration
	}
	for _, c := range counts {
		slices.Sort(c.failed)
	}
	return counts
}

type groupCount struct {
	run                 int
	failed, notInjected []string
	duration            time.Duration
}
