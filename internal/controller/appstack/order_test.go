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
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

const (
	// maxDependencyLatency is the maximum latency of a dependency: two watch events and a write. On a busy machine the
	// limit is five times the latency of a small write.
	maxDependencyLatency = 50 * time.Millisecond
	maxDependencyWrites  = 5
	// concurrentStacks is the number of concurrent stacks: more would measure the machine.
	concurrentStacks = 2
)

// watchedWorld is a world with an independent watch.
type watchedWorld struct {
	*world
	watcher *watcher.Watcher
}

// TestDependencyOrder installs and upgrades random stacks: no component is written before its dependencies are ready,
// and none much later. It checks a separate watch and the audit log.
func TestDependencyOrder(t *testing.T) {
	r := newRNG(t)
	s := harness.New(t, behaviorByImageTag, operator.Options{NoRace: true})
	p := &watchedWorld{newWorld(t, s), startOrderWatcher(t, s)}
	n := 6
	if longRun {
		n = 50
	}
	first, second := make([]appsapi.AppStackSpec, n), make([]appsapi.AppStackSpec, n)
	for i := range n {
		first[i] = r.randomStack(3 + r.IntN(10))
		second[i] = r.randomUpgrade(first[i])
	}
	probe, began := p.startLatencyProbe(), time.Now()
	err := runConcurrently(n, concurrentStacks, func(i int) error { return p.install(stackName(i), first[i]) })
	if err == nil {
		err = runConcurrently(n, concurrentStacks, func(i int) error {
			_, err := p.patchComponents(stackName(i), second[i])
			return errors.Join(err, p.waitRevisionHealthy(stackName(i), 2))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.checkOrder(n, time.Since(began), probe.median())
	s.ExpectNoForbiddenRequests(t)
}

func stackName(i int) string { return fmt.Sprintf("s%d", i) }

// checkOrder checks the history of all stacks.
func (p *watchedWorld) checkOrder(n int, took, smallWrite time.Duration) {
	p.Helper()
	events := p.watcher.Events()
	requests, err := p.AuditLog.Since(p.Context(), p.Plane.Config, 0)
	p.fatal(err)
	checker := newAuditCheck(requests.In(p.NS))
	var latencies []time.Duration
	rollouts, components := 0, 0
	for i := range n {
		f, err := newTimeline(events, p.NS, stackName(i))
		p.fatal(err)
		wrong, waits := f.checkOrder()
		wrong = append(wrong, checker.violations(&f, waits)...)
		wrong = append(wrong, f.unexpectedRollouts()...)
		if len(wrong) > 0 {
			p.Errorf("%s (%s):\n%s", stackName(i), describeSpec(&f.specs[0].AppStackSpec), strings.Join(wrong, "\n"))
		}
		for _, e := range waits {
			latencies = append(latencies, e.latency)
		}
		rollouts, components = rollouts+len(f.rollouts()), components+len(f.states)
	}
	operatorWrites := requests.In(p.NS).By(operator.User).Writes().Of("deployments.apps", "jobs.batch")
	accepted, rejected := operatorWrites.Count().Total()
	p.Logf("%d stacks of %d components, installed and upgraded in %s: %d creations and rollouts, %d of them after a dependency: %s; rejected writes: %d; a small write takes %s",
		n, components, took.Round(time.Second/10), rollouts, len(latencies), formatQuantiles(latencies), rejected, smallWrite)
	if accepted != rollouts {
		p.Errorf("%d writes to workloads, want one for each of %d creations and rollouts", accepted, rollouts)
	}
	if limit := max(maxDependencyLatency, maxDependencyWrites*smallWrite); len(latencies) == 0 || quantile(latencies, 50) > limit {
		p.Errorf("latency of a dependency: got %s, want a median of at most %s", formatQuantiles(latencies), limit)
	}
}

// unexpectedRollouts returns the components that were created or rolled out more or less often than the specs require.
func (f *timeline) unexpectedRollouts() []string {
	var wrong []string
	for _, c := range f.specs[0].Components {
		got, want, previous := 0, 0, ""
		for i := range f.specs {
			if shape := desiredPodSummary(componentOf(&f.specs[i].AppStackSpec, c.Name)); shape != previous {
				want, previous = want+1, shape
			}
		}
		for _, t := range f.rollouts() {
			if t.component == c.Name {
				got++
			}
		}
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: got %d creations and rollouts, want %d", c.Name, got, want))
		}
	}
	return wrong
}

func describeSpec(spec *appsapi.AppStackSpec) string {
	var out []string
	for i := range spec.Components {
		c := &spec.Components[i]
		out = append(out, fmt.Sprintf("%s(%s) -> %v", c.Name, imageOf(c), dependenciesOf(c)))
	}
	return strings.Join(out, ", ")
}

func (p *watchedWorld) fatal(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// runConcurrently runs n functions with limited concurrency.
func runConcurrently(n, maxConcurrent int, run func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	limit := make(chan struct{}, maxConcurrent)
	for i := range n {
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			if err := run(i); err != nil {
				errs[i] = fmt.Errorf("%d: %w", i, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (p *watchedWorld) install(name string, spec appsapi.AppStackSpec) error {
	if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta(name), Spec: *spec.DeepCopy()}); err != nil {
		return err
	}
	return p.waitRevisionHealthy(name, 1)
}

// patchComponents replaces the components of a stack and returns the time of the response.
func (p *watchedWorld) patchComponents(name string, spec appsapi.AppStackSpec) (time.Time, error) {
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"components": spec.Components}})
	if err != nil {
		return time.Time{}, err
	}
	err = p.Patch(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta(name)}, client.RawPatch(types.MergePatchType, body))
	return time.Now(), err
}

// observedStack returns the last observed state of a stack.
func (p *watchedWorld) observedStack(state watcher.State, name string) *appsapi.AppStack {
	live := state.Get(orderStackResource, p.NS+"/"+name)
	if live == nil {
		return nil
	}
	var out appsapi.AppStack
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, &out); err != nil {
		p.Error(err)
	}
	return &out
}

// waitGenerationReady waits until a stack is ready with a generation.
func (p *watchedWorld) waitGenerationReady(name string, generation int64) (*appsapi.AppStack, error) {
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	defer cancel()
	var stack *appsapi.AppStack
	err := p.watcher.WaitFor(ctx, name+" to be ready", func(state watcher.State) bool {
		if stack = p.observedStack(state, name); stack == nil {
			return false
		}
		c := meta.FindStatusCondition(stack.Status.Conditions, "Ready")
		return stack.Generation == generation && c != nil && c.Status == "True" && c.ObservedGeneration == generation
	})
	if err != nil {
		return stack, fmt.Errorf("%w; last observed: %+v", err, stack)
	}
	return stack, nil
}

// waitRevisionHealthy waits until a stack is ready and its current revision is marked as healthy.
func (p *watchedWorld) waitRevisionHealthy(name string, generation int64) error {
	stack, err := p.waitGenerationReady(name, generation)
	if err != nil {
		return err
	}
	if want := fmt.Sprint(generation); stack.Status.CurrentRevision != want || stack.Status.HealthyRevision != want {
		return fmt.Errorf("%s is ready: got current revision %q and healthy revision %q, want %s", name, stack.Status.CurrentRevision, stack.Status.HealthyRevision, want)
	}
	return nil
}
