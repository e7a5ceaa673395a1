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
	mu      sync.Mutex
	waiting map[string][]plan
	tries   map[string]int
	most    int // how often one is tried that finds nothing to strike
	left    int
	results []result
	broken  int // steps that went wrong although nothing was planned to
}

// maxBroken is how many of those end everything: there is nothing left to compare with.
const maxBroken = 5

// result is what became of a plan.
type result struct {
	plan   plan
	missed bool // it found nothing to strike
	wrong  string
	took   time.Duration
}

// maxTries is how often a plan is tried that found nothing to strike: not every run makes the
// same writes. Of a sample nobody misses one.
func maxTries() int {
	if *howMany > 0 && *replay == "" {
		return 1
	}
	return 3
}

func newPool(plans []plan, most int) *pool {
	p := &pool{waiting: map[string][]plan{}, tries: map[string]int{}, most: most, left: len(plans)}
	for _, plan := range plans {
		p.waiting[plan.step] = append(p.waiting[plan.step], plan)
	}
	return p
}

// next takes one plan for each step of the scenario that has most of them left; none is
// left when it is empty.
func (p *pool) next() (steps []step, taken map[string]plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken = map[string]plan{}
	if p.broken >= maxBroken {
		return nil, taken
	}
	most := 0
	for _, s := range scenarios {
		if n := p.runs(s); n > most {
			steps, most = s, n
		}
	}
	for _, s := range steps {
		if waiting := p.waiting[s.name]; len(waiting) > 0 {
			taken[s.name], p.waiting[s.name] = waiting[0], waiting[1:]
		}
	}
	return steps, taken
}

// runs is how many runs of a scenario the plans that wait need.
func (p *pool) runs(steps []step) int {
	n := 0
	for _, s := range steps {
		n = max(n, len(p.waiting[s.name]))
	}
	return n
}

// scenarios are those that the plans need.
func (p *pool) scenarios() [][]step {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(scenarios), func(s []step) bool { return p.runs(s) == 0 })
}

// giveBack returns plans that were not played.
func (p *pool) giveBack(plans map[string]plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for step, plan := range plans {
		p.waiting[step] = append(p.waiting[step], plan)
	}
}

// done notes what became of a plan. One that has missed waits for another run.
func (p *pool) done(t *testing.T, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := r.plan.String()
	p.tries[line]++
	if r.missed && r.wrong == "" && p.tries[line] < p.most {
		p.waiting[r.plan.step] = append(p.waiting[r.plan.step], r.plan)
		return
	}
	p.left--
	p.results = append(p.results, r)
	if r.wrong != "" {
		text := fmt.Sprintf("FAILED %s\n  %s", line, strings.ReplaceAll(r.wrong, "\n", "\n  "))
		fmt.Println(text) // at once: a run of an hour is not waited for to its end
		t.Error(text)
	}
	if n := len(p.results); n%25 == 0 {
		fmt.Printf("%s  %d plans played, %d left\n", time.Now().Format("15:04:05"), n, p.left)
	}
}

// work plays until no plan is left.
func (p *pool) work(t *testing.T, g *ground, r *reference, worker int) {
	for run := 0; ; run++ {
		steps, plans := p.next()
		if len(plans) == 0 {
			return
		}
		t.Run(fmt.Sprintf("worker-%d-run-%d", worker, run), func(t *testing.T) {
			p.run(t, g, r, steps, plans)
		})
	}
}

// run plays a scenario up to the last step that has a plan. It ends early when a step
// goes wrong: what follows would only repeat that.
func (p *pool) run(t *testing.T, g *ground, r *reference, steps []step, plans map[string]plan) {
	defer func() { p.giveBack(plans) }()
	w := newWorld(t, g)
	var seen []played
	for _, s := range steps {
		if len(plans) == 0 {
			break
		}
		this, planned := plans[s.name]
		delete(plans, s.name)
		var did struck
		now := played{step: s.name, planned: planned, plan: this}
		start := time.Now()
		var wrong trouble
		if planned {
			wrong = w.trouble(this, &did)
		}
		var err error
		now.moment, err = w.play(t.Context(), s, wrong)
		now.result = result{plan: this, missed: !did.Load(), took: time.Since(start)}
		if err != nil {
			now.result.wrong = err.Error()
		} else if r.ready() {
			now.judge(r)
		}
		seen = append(seen, now)
		if now.result.wrong != "" {
			break
		}
	}
	for _, now := range seen {
		if now.result.wrong == "" {
			now.judge(r)
		}
		switch {
		case now.planned:
			p.done(t, now.result)
		case now.result.wrong != "":
			text := fmt.Sprintf("FAILED %s, in which nothing was planned to go wrong: %s", now.step, now.result.wrong)
			fmt.Println(text)
			t.Error(text)
			p.mu.Lock()
			p.broken++
			p.mu.Unlock()
		}
	}
}

// played is a step that was played.
type played struct {
	step    string
	planned bool
	plan    plan
	moment  moment
	result  result
}

func (p *played) judge(r *reference) {
	if diff := r.compare(p.step, p.moment); len(diff) > 0 {
		p.result.wrong = "divergent:\n" + strings.Join(diff, "\n")
	}
}

// tally counts results by kind of plan, those of data apart.
func (p *pool) tally() map[string]*count {
	counts := map[string]*count{}
	for _, r := range p.results {
		c := counts[r.plan.group()]
		if c == nil {
			c = &count{}
			counts[r.plan.group()] = c
		}
		switch {
		case r.wrong != "":
			c.failed = append(c.failed, r.plan.String())
		case r.missed:
			c.missed = append(c.missed, r.plan.String())
		}
		c.run++
		c.took += r.took
	}
	for _, c := range counts {
		slices.Sort(c.failed)
	}
	return counts
}

type count struct {
	run            int
	failed, missed []string
	took           time.Duration
}
