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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// effective is how soon an edit has to show.
const effective = time.Second

// TestMiddle edits stacks that are stuck, or busy, in the middle of something.
func TestMiddle(t *testing.T) {
	s := stage.New(t, playTag, operator.Options{Fast: true})
	eye := watchOrder(t, s)
	for name, test := range map[string]func(*playground){
		"edits": (*playground).testEdits, "circles": (*playground).testCircles, "storms": (*playground).testStorms,
	} {
		t.Run(name, func(t *testing.T) { test(&playground{newWorld(t, s), eye}) })
	}
	s.NeedsNoMore(t)
}

// TestHeld holds the pods of a component back, with an operator of its own to kill.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := stage.New(t, playTag, operator.Options{})
	(&playground{newWorld(t, s), watchOrder(t, s)}).testHeld()
	s.NeedsNoMore(t)
}

// testEdits ends muddles: what waited goes on at once.
func (p *playground) testEdits() {
	r := newChance(p.T)
	muddles := make([]muddle, 6)
	if orderLong {
		muddles = make([]muddle, 20)
	}
	for i := range muddles {
		muddles[i] = r.muddle(i)
	}
	var mu sync.Mutex
	var all []time.Duration
	heart, began := p.feelPulse(), time.Now()
	err := together(len(muddles), sideBySide, func(i int) error {
		took, err := p.play(&muddles[i], heart)
		if err != nil {
			return fmt.Errorf("%s: %w", muddles[i].words, err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, took...)
		return nil
	})
	p.Logf("%d edits of stacks that were stuck: %d components went on, %s; any small write took up to %s",
		len(muddles), len(all), spread(all), heart.slowest(began, time.Now()).Round(time.Millisecond))
	p.fatal(err)
}

// play brings a stack into its muddle and out of it. It returns how long each component that
// waited took to go on: from the answer to the edit, or from the moment at which the last
// one that it needs was ready.
func (p *playground) play(m *muddle, heart *pulse) ([]time.Duration, error) {
	for i, spec := range m.before {
		if i == 0 {
			if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.meta(m.name), Spec: *spec.DeepCopy()}); err != nil {
				return nil, err
			}
		} else if _, err := p.patch(m.name, spec); err != nil {
			return nil, err
		}
		if err := p.until(m.name, "stuck or ready", func(f *film) bool { return len(f.specs) == i+1 && f.stuck(&spec) }); err != nil {
			return nil, err
		}
	}
	time.Sleep(200 * time.Millisecond) // what comes too soon would come now
	f, err := p.film(m.name)
	if err != nil {
		return nil, err
	}
	due, generation := f.due(&m.after), len(f.specs)+1
	if len(due) == 0 {
		return nil, errors.New("the edit changes nothing")
	}
	answered, err := p.patch(m.name, m.after)
	if err != nil {
		return nil, err
	}
	if err := p.until(m.name, fmt.Sprintf("%v to go on", due), func(f *film) bool {
		return len(f.specs) == generation && f.stuck(&m.after)
	}); err != nil {
		return nil, err
	}
	return p.judgeMuddle(m, due, answered, heart)
}

// judgeMuddle looks at how a muddle ended.
func (p *playground) judgeMuddle(m *muddle, due []string, answered time.Time, heart *pulse) ([]time.Duration, error) {
	if !slices.ContainsFunc(m.after.Components, func(c appsapi.Component) bool { return isBroken(&c) }) {
		if _, err := p.waitReady(m.name, int64(len(m.before)+1)); err != nil {
			return nil, err
		}
	}
	if componentOf(&m.after, m.blocker) == nil {
		err := p.until(m.name, m.blocker+" to go", func(f *film) bool {
			live, ok := f.last(componentOf(&m.before[0], m.blocker))
			return !ok || live.job // a run may be kept
		})
		if err != nil {
			return nil, err
		}
	}
	f, err := p.film(m.name)
	if err != nil {
		return nil, err
	}
	wrong, _ := f.judge()
	asked := f.specs[len(f.specs)-1].version
	var all []time.Duration
	var moved []string
	for _, t := range f.turns() {
		if t.version < asked {
			continue
		}
		moved = append(moved, t.component)
		since := answered
		for _, need := range needsOf(componentOf(&m.after, t.component)) {
			if ready, ok := f.readyBefore(componentOf(&m.after, need), t.version); ok && ready.seen.After(since) {
				since = ready.seen
			}
		}
		took := max(0, t.seen.Sub(since))
		// A revision and a child are written, and a watch has to bring the news.
		if all = append(all, took); took > effective+3*heart.slowest(since, t.seen) {
			wrong = append(wrong, fmt.Sprintf("%s went on only after %s", t.component, took))
		}
	}
	slices.Sort(moved)
	slices.Sort(due)
	if !slices.Equal(moved, due) {
		wrong = append(wrong, fmt.Sprintf("%v went on, want %v", moved, due))
	}
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "\n"))
	}
	return all, nil
}

// until waits for something in the film of a stack. Nothing is measured by it.
func (p *playground) until(name, what string, holds func(*film) bool) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		f, err := p.film(name)
		switch {
		case err != nil:
			return err
		case holds(&f):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("wait for %s to be %s: seen %v; it says %+v", name, what, f.scenes, p.seen(p.eye.State(), name).Status)
		}
	}
}

func (p *playground) film(name string) (film, error) { return filmOf(p.eye.Events(), p.NS, name) }
