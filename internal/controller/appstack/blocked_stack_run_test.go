package appstack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// reactionTimeout is how soon an edit has to show.
const reactionTimeout = time.Second

// TestEditBlockedStacks edits stacks that are stuck, or busy, in the middle of something.
func TestEditBlockedStacks(t *testing.T) {
	s := harness.New(t, behaviorByImageTag, operator.Options{NoRace: true})
	observer := startOrderWatcher(t, s)
	for name, test := range map[string]func(*watchedWorld){
		"edits": (*watchedWorld).testUnblockingEdits, "circles": (*watchedWorld).testDependencyCycles, "storms": (*watchedWorld).testRapidEdits,
	} {
		t.Run(name, func(t *testing.T) { test(&watchedWorld{newWorld(t, s), observer}) })
	}
	s.ExpectNoForbiddenRequests(t)
}

// TestPodTemplateHold holds the pods of a component back, with an operator of its own to kill.
func TestPodTemplateHold(t *testing.T) {
	t.Parallel()
	s := harness.New(t, behaviorByImageTag, operator.Options{})
	(&watchedWorld{newWorld(t, s), startOrderWatcher(t, s)}).testPodTemplateHold()
	s.ExpectNoForbiddenRequests(t)
}

// testUnblockingEdits ends muddles: what waited goes on at once.
func (p *watchedWorld) testUnblockingEdits() {
	r := newRNG(p.T)
	stacks := make([]blockedStack, 6)
	if longRun {
		stacks = make([]blockedStack, 20)
	}
	for i := range stacks {
		stacks[i] = r.randomBlockedStack(i)
	}
	var mu sync.Mutex
	var all []time.Duration
	probe, began := p.startLatencyProbe(), time.Now()
	err := runConcurrently(len(stacks), concurrentStacks, func(i int) error {
		took, err := p.runBlockedStack(&stacks[i], probe)
		if err != nil {
			return fmt.Errorf("%s: %w", stacks[i].description, err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, took...)
		return nil
	})
	p.Logf("%d edits of stacks that were stuck: %d components went on, %s; any small write took up to %s",
		len(stacks), len(all), formatQuantiles(all), probe.slowestBetween(began, time.Now()).Round(time.Millisecond))
	p.fatal(err)
}

// runBlockedStack brings a stack into its muddle and out of it. It returns how long each component that
// waited took to go on: from the answer to the edit, or from the moment at which the last
// one that it needs was ready.
func (p *watchedWorld) runBlockedStack(m *blockedStack, probe *latencyProbe) ([]time.Duration, error) {
	for i, spec := range m.before {
		if i == 0 {
			if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta(m.name), Spec: *spec.DeepCopy()}); err != nil {
				return nil, err
			}
		} else if _, err := p.patchComponents(m.name, spec); err != nil {
			return nil, err
		}
		if err := p.waitTimeline(m.name, "stuck or ready", func(f *timeline) bool { return len(f.specs) == i+1 && f.isSettled(&spec) }); err != nil {
			return nil, err
		}
	}
	time.Sleep(200 * time.Millisecond) // what comes too soon would come now
	f, err := p.timeline(m.name)
	if err != nil {
		return nil, err
	}
	expected, generation := f.expectedRollouts(&m.after), len(f.specs)+1
	if len(expected) == 0 {
		return nil, errors.New("the edit changes nothing")
	}
	answered, err := p.patchComponents(m.name, m.after)
	if err != nil {
		return nil, err
	}
	if err := p.waitTimeline(m.name, fmt.Sprintf("%v to go on", expected), func(f *timeline) bool {
		return len(f.specs) == generation && f.isSettled(&m.after)
	}); err != nil {
		return nil, err
	}
	return p.checkBlockedStack(m, expected, answered, probe)
}

// checkBlockedStack looks at how a muddle ended.
func (p *watchedWorld) checkBlockedStack(m *blockedStack, expected []string, answered time.Time, probe *latencyProbe) ([]time.Duration, error) {
	if !slices.ContainsFunc(m.after.Components, func(c appsapi.Component) bool { return isBroken(&c) }) {
		if _, err := p.waitGenerationReady(m.name, int64(len(m.before)+1)); err != nil {
			return nil, err
		}
	}
	if componentOf(&m.after, m.blocker) == nil {
		err := p.waitTimeline(m.name, m.blocker+" to go", func(f *timeline) bool {
			live, ok := f.lastState(componentOf(&m.before[0], m.blocker))
			return !ok || live.job // a run may be kept
		})
		if err != nil {
			return nil, err
		}
	}
	f, err := p.timeline(m.name)
	if err != nil {
		return nil, err
	}
	wrong, _ := f.checkOrder()
	specVersion := f.specs[len(f.specs)-1].version
	var all []time.Duration
	var rolledOut []string
	for _, t := range f.rollouts() {
		if t.version < specVersion {
			continue
		}
		rolledOut = append(rolledOut, t.component)
		since := answered
		for _, dependency := range dependenciesOf(componentOf(&m.after, t.component)) {
			if ready, ok := f.readyBefore(componentOf(&m.after, dependency), t.version); ok && ready.observedAt.After(since) {
				since = ready.observedAt
			}
		}
		took := max(0, t.observedAt.Sub(since))
		// A revision and a child are written, and a watch has to bring the news.
		if all = append(all, took); took > reactionTimeout+3*probe.slowestBetween(since, t.observedAt) {
			wrong = append(wrong, fmt.Sprintf("%s went on only after %s", t.component, took))
		}
	}
	slices.Sort(rolledOut)
	slices.Sort(expected)
	if !slices.Equal(rolledOut, expected) {
		wrong = append(wrong, fmt.Sprintf("%v went on, want %v", rolledOut, expected))
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "\n"))
	}
	return all, nil
}

// waitTimeline waits for something in the film of a stack. Nothing is measured by it.
func (p *watchedWorld) waitTimeline(name, what string, condition func(*timeline) bool) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		f, err := p.timeline(name)
		switch {
		case err != nil:
			return err
		case condition(&f):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("wait for %s to be %s: seen %v; it says %+v", name, what, f.states, p.observedStack(p.watcher.State(), name).Status)
		}
	}
}

func (p *watchedWorld) timeline(name string) (timeline, error) {
	return newTimeline(p.watcher.Events(), p.NS, name)
}
