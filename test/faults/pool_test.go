package faults

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// pool assigns plans to runs: a run of a scenario executes one plan per step. A step starts only after the previous one
// has reached the state of a clean run, so that plans are independent.
type pool struct {
	mu                sync.Mutex
	pending           map[string][]plan
	attempts          map[string]int
	maxAttempts       int // attempts for a plan whose fault is not injected
	remaining         int
	results           []planResult
	unplannedFailures int // failed steps without a planned fault
}

// maxUnplannedFailures stops the run: without clean steps there is nothing to compare with.
const maxUnplannedFailures = 5

// planResult is the result of a plan.
type planResult struct {
	plan        plan
	notInjected bool // the planned write did not occur
	failure     string
	duration    time.Duration
}

// maxPlanAttempts is the number of attempts for a plan whose fault is not injected: not every run makes the same writes.
// A sample does not need to be complete.
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

// takePlans takes one plan for each step of the scenario with the most remaining plans; an empty map means none are
// left.
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

// runsNeeded returns the number of runs of a scenario that its pending plans need.
func (p *pool) runsNeeded(steps []step) int {
	n := 0
	for _, s := range steps {
		n = max(n, len(p.pending[s.name]))
	}
	return n
}

// scenariosNeeded returns the scenarios with pending plans.
func (p *pool) scenariosNeeded() [][]step {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(scenarios), func(s []step) bool { return p.runsNeeded(s) == 0 })
}

// requeue returns plans that were not run.
func (p *pool) requeue(plans map[string]plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for step, plan := range plans {
		p.pending[step] = append(p.pending[step], plan)
	}
}

// recordResult records the result of a plan. A plan whose fault was not injected is retried in another run.
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
		fmt.Println(text) // at once, not only at the end of a long run
		t.Error(text)
	}
	if n := len(p.results); n%25 == 0 {
		fmt.Printf("%s  %d plans run, %d left\n", time.Now().Format("15:04:05"), n, p.remaining)
	}
}

// runWorker runs plans until none are left.
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

// runScenario runs a scenario up to the last step with a plan. It stops at a failed step, because later steps would
// fail, too.
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
			text := fmt.Sprintf("FAILED %s without a planned fault: %s", current.step, current.result.failure)
			fmt.Println(text)
			t.Error(text)
			p.mu.Lock()
			p.unplannedFailures++
			p.mu.Unlock()
		}
	}
}

// stepRun is an executed step.
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

// countByGroup counts results by kind of plan, with data separately.
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
