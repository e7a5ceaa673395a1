package appstack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// reactionTimeout is the maximum time until an edit takes effect.
const reactionTimeout = time.Second

// TestEditBlockedStacks edits stacks whose rollout is blocked or in progress.
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

// TestPodTemplateHold holds the pod template of a component, with its own operator to kill.
func TestPodTemplateHold(t *testing.T) {
	t.Parallel()
	s := harness.New(t, behaviorByImageTag, operator.Options{})
	(&watchedWorld{newWorld(t, s), startOrderWatcher(t, s)}).testPodTemplateHold()
	s.ExpectNoForbiddenRequests(t)
}

// testUnblockingEdits unblocks stacks: waiting components continue at once.
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
	p.Logf("%d edits of blocked stacks: %d components continued, %s; small writes took up to %s",
		len(stacks), len(all), formatQuantiles(all), probe.slowestBetween(began, time.Now()).Round(time.Millisecond))
	p.fatal(err)
}

// runBlockedStack blocks and unblocks a stack. It returns the time each waiting component took to continue, measured
// from the response to the edit or from the readiness of its last dependency.
func (p *watchedWorld) runBlockedStack(m *blockedStack, probe *latencyProbe) ([]time.Duration, error) {
	for i, spec := range m.before {
		if i == 0 {
			if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta(m.name), Spec: *spec.DeepCopy()}); err != nil {
				return nil, err
			}
		} else if _, err := p.patchComponents(m.name, spec); err != nil {
			return nil, err
		}
		if err := p.waitTimeline(m.name, "blocked or ready", func(f *timeline) bool { return len(f.specs) == i+1 && f.isSettled(&spec) }); err != nil {
			return nil, err
		}
	}
	time.Sleep(200 * time.Millisecond) // a rollout that starts too early would start now
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
	if err := p.waitTimeline(m.name, fmt.Sprintf("%v to continue", expected), func(f *timeline) bool {
		return len(f.specs) == generation && f.isSettled(&m.after)
	}); err != nil {
		return nil, err
	}
	return p.checkBlockedStack(m, expected, answered, probe)
}

// checkBlockedStack checks the result of an edit.
func (p *watchedWorld) checkBlockedStack(m *blockedStack, expected []string, answered time.Time, probe *latencyProbe) ([]time.Duration, error) {
	if !slices.ContainsFunc(m.after.Components, func(c appsapi.Component) bool { return isBroken(&c) }) {
		if _, err := p.waitGenerationReady(m.name, int64(len(m.before)+1)); err != nil {
			return nil, err
		}
	}
	if componentOf(&m.after, m.blocker) == nil {
		err := p.waitTimeline(m.name, m.blocker+" to go", func(f *timeline) bool {
			live, ok := f.lastState(componentOf(&m.before[0], m.blocker))
			return !ok || live.job // an earlier run may be kept
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
		// The operator writes a revision and a child, and a watch must report them.
		if all = append(all, took); took > reactionTimeout+3*probe.slowestBetween(since, t.observedAt) {
			wrong = append(wrong, fmt.Sprintf("%s continued only after %s", t.component, took))
		}
	}
	slices.Sort(rolledOut)
	slices.Sort(expected)
	if !slices.Equal(rolledOut, expected) {
		wrong = append(wrong, fmt.Sprintf("%v continued, want %v", rolledOut, expected))
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "\n"))
	}
	return all, nil
}

// waitTimeline waits for a state of a stack. It is not used for measurements.
func (p *watchedWorld) waitTimeline(name, what string, condition func(*timeline) bool) error {
	var f timeline
	err := wait.PollUntilContextTimeout(p.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (done bool, err error) {
		f, err = p.timeline(name)
		return err == nil && condition(&f), err
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("wait for %s to be %s: states %v; status %+v", name, what, f.states, p.observedStack(p.watcher.State(), name).Status)
	}
	return err
}

func (p *watchedWorld) timeline(name string) (timeline, error) {
	return newTimeline(p.watcher.Events(), p.NS, name)
}
