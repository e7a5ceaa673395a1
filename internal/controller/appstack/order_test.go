package appstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

const (
	// maxEdge is what a dependency may cost: a round through two watches and a write. On a
	// machine that is busy with other things it is what five small writes cost there.
	maxEdge       = 50 * time.Millisecond
	maxEdgeWrites = 5
	// sideBySide is how many stacks move at a time: with more, the machine is measured.
	sideBySide = 2
)

// playground is a world with an eye of its own on it.
type playground struct {
	*world
	eye *watcher.Watcher
}

// TestOrder installs random stacks and upgrades each: nothing comes before what it needs,
// and hardly later. The judges are a watch of our own and the audit log.
func TestOrder(t *testing.T) {
	r := newChance(t)
	s := stage.New(t, playTag, operator.Options{Fast: true})
	p := &playground{newWorld(t, s), watchOrder(t, s)}
	n := 6
	if orderLong {
		n = 50
	}
	first, second := make([]appsapi.AppStackSpec, n), make([]appsapi.AppStackSpec, n)
	for i := range n {
		first[i] = r.stack(3 + r.IntN(10))
		second[i] = r.upgrade(first[i])
	}
	heart, began := p.feelPulse(), time.Now()
	err := together(n, sideBySide, func(i int) error { return p.install(named(i), first[i]) })
	if err == nil {
		err = together(n, sideBySide, func(i int) error {
			_, err := p.patch(named(i), second[i])
			return errors.Join(err, p.waitRevision(named(i), 2))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.judgeOrder(n, time.Since(began), heart.usual())
	s.NeedsNoMore(t)
}

func named(i int) string { return fmt.Sprintf("s%d", i) }

// judgeOrder looks at what happened to all stacks.
func (p *playground) judgeOrder(n int, took, smallWrite time.Duration) {
	p.Helper()
	events := p.eye.Events()
	requests, err := p.Log.Since(p.Context(), p.Plane.Config, 0)
	p.fatal(err)
	log := newWitness(requests.In(p.NS))
	var costs []time.Duration
	turns, components := 0, 0
	for i := range n {
		f, err := filmOf(events, p.NS, named(i))
		p.fatal(err)
		wrong, edges := f.judge()
		wrong = append(wrong, log.contradicts(&f, edges)...)
		wrong = append(wrong, f.needless()...)
		if len(wrong) > 0 {
			p.Errorf("%s, which is %s:\n%s", named(i), describe(&f.specs[0].AppStackSpec), strings.Join(wrong, "\n"))
		}
		for _, e := range edges {
			costs = append(costs, e.cost)
		}
		turns, components = turns+len(f.turns()), components+len(f.scenes)
	}
	ours := requests.In(p.NS).By(operator.User).Writes().Of("deployments.apps", "jobs.batch")
	accepted, refused := ours.Count().Total()
	p.Logf("%d stacks of %d components, installed and upgraded in %s: %d creations and rollouts, %d of them after a dependency: %s; refused writes: %d; a small write takes %s",
		n, components, took.Round(time.Second/10), turns, len(costs), spread(costs), refused, smallWrite)
	if accepted != turns {
		p.Errorf("%d writes to workloads, want one for each of %d creations and rollouts", accepted, turns)
	}
	if most := max(maxEdge, maxEdgeWrites*smallWrite); len(costs) == 0 || quantile(costs, 50) > most {
		p.Errorf("an edge costs %s, want a median of at most %s", spread(costs), most)
	}
}

// needless finds what was made or rolled more or less often than the specs ask for.
func (f *film) needless() []string {
	var wrong []string
	for _, c := range f.specs[0].Components {
		got, want, was := 0, 0, ""
		for i := range f.specs {
			if shape := shapeOf(componentOf(&f.specs[i].AppStackSpec, c.Name)); shape != was {
				want, was = want+1, shape
			}
		}
		for _, t := range f.turns() {
			if t.component == c.Name {
				got++
			}
		}
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s was made or rolled %d times, its spec says %d", c.Name, got, want))
		}
	}
	return wrong
}

func describe(spec *appsapi.AppStackSpec) string {
	var out []string
	for i := range spec.Components {
		c := &spec.Components[i]
		out = append(out, fmt.Sprintf("%s(%s) -> %v", c.Name, imageOf(c), needsOf(c)))
	}
	return strings.Join(out, ", ")
}

func (p *playground) fatal(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// together does n things, a few at a time.
func together(n, atOnce int, do func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	limit := make(chan struct{}, atOnce)
	for i := range n {
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			if err := do(i); err != nil {
				errs[i] = fmt.Errorf("%d: %w", i, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (p *playground) install(name string, spec appsapi.AppStackSpec) error {
	if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.meta(name), Spec: *spec.DeepCopy()}); err != nil {
		return err
	}
	return p.waitRevision(name, 1)
}

// patch replaces the components of a stack and says when that was answered.
func (p *playground) patch(name string, spec appsapi.AppStackSpec) (time.Time, error) {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"components": spec.Components}})
	if err != nil {
		return time.Time{}, err
	}
	err = p.Patch(p.Context(), &appsapi.AppStack{ObjectMeta: p.meta(name)}, client.RawPatch(types.MergePatchType, body))
	return time.Now(), err
}

// seen is a stack as the watch saw it.
func (p *playground) seen(state watcher.State, name string) *appsapi.AppStack {
	live := state.Get(orderStacks, p.NS+"/"+name)
	if live == nil {
		return nil
	}
	var out appsapi.AppStack
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &out); err != nil {
		p.Error(err)
	}
	return &out
}

// waitReady waits until a stack says that it runs as its spec of a generation says.
func (p *playground) waitReady(name string, generation int64) (*appsapi.AppStack, error) {
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	defer cancel()
	var is *appsapi.AppStack
	err := p.eye.WaitFor(ctx, name+" to be ready", func(state watcher.State) bool {
		if is = p.seen(state, name); is == nil {
			return false
		}
		c := meta.FindStatusCondition(is.Status.Conditions, "Ready")
		return is.Generation == generation && c != nil && c.Status == "True" && c.ObservedGeneration == generation
	})
	if err != nil {
		return is, fmt.Errorf("%w; the last that was seen: %+v", err, is)
	}
	return is, nil
}

// waitRevision waits until a stack is ready with every spec it had remembered, this one as
// the healthy one.
func (p *playground) waitRevision(name string, generation int64) error {
	is, err := p.waitReady(name, generation)
	if err != nil {
		return err
	}
	if want := fmt.Sprint(generation); is.Status.CurrentRevision != want || is.Status.HealthyRevision != want {
		return fmt.Errorf("%s is ready and runs revision %q, healthy is %q, want %s", name, is.Status.CurrentRevision, is.Status.HealthyRevision, want)
	}
	return nil
}
