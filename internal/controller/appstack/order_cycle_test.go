package appstack_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// cycleBaseSpec has the order a, b, c. Without probes, dependents would wait until the pods have settled.
const cycleBaseSpec = `
components:
- {name: a, service: {image: "shop/a:1", probes: {readiness: {exec: {command: [ready]}}}}}
- {name: b, dependsOn: [a], service: {image: "shop/b:1", ports: [{port: 80}]}}
- {name: c, bindings: [{component: b}], service: {image: "shop/c:1", probes: {readiness: {exec: {command: [ready]}}}}}
- {name: lone, service: {image: "shop/lone:1"}}
`

func (p *watchedWorld) decodeSpec(text string) appsapi.AppStackSpec {
	var spec appsapi.AppStackSpec
	p.Expect(yaml.UnmarshalStrict([]byte(text), &spec)).To(Succeed())
	return spec
}

// testDependencyCycles creates a cycle by an edit and by a creation: it is reported at once, no child is written, and
// the edit that removes it takes effect at once.
func (p *watchedWorld) testDependencyCycles() {
	healthy := p.decodeSpec(cycleBaseSpec)
	p.fatal(p.install("edited", healthy))
	cyclic := addCycle(&healthy)
	for _, name := range []string{"a", "lone"} {
		setImage(componentOf(cyclic, name), "shop/"+name+":2")
	}
	edited := p.expectCycleRejected("edited", cyclic, false)
	fixed := *cyclic.DeepCopy()
	componentOf(&fixed, "a").DependsOn = nil
	fixedAfter := p.fixCycle("edited", fixed, "a", "lone")

	// Revert the edit: nothing changes.
	again := p.expectCycleRejected("edited", addCycle(&fixed), false)
	p.fixCycle("edited", fixed)

	fresh := p.expectCycleRejected("created", cyclic, true)
	createdAfter := p.fixCycle("created", fixed, "a", "lone", "b", "c")
	p.Logf("cycle reported after %s; rollout continues %s after its removal", max(edited, again, fresh), max(fixedAfter, createdAfter))
}

func addCycle(spec *appsapi.AppStackSpec) *appsapi.AppStackSpec {
	spec = spec.DeepCopy()
	componentOf(spec, "a").DependsOn = []string{"c"}
	return spec
}

// expectCycleRejected writes a cycle and checks that no child is written.
func (p *watchedWorld) expectCycleRejected(name string, spec *appsapi.AppStackSpec, create bool) (took time.Duration) {
	p.Helper()
	calls := p.OperatorRequestsWithin(reactionTimeout, func() {
		var answered time.Time
		var err error
		if create {
			err = p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta(name), Spec: *spec.DeepCopy()})
			answered = time.Now()
		} else {
			answered, err = p.patchComponents(name, *spec)
		}
		p.fatal(err)
		ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
		defer cancel()
		p.fatal(p.watcher.WaitFor(ctx, "the cycle to be reported", func(s watcher.State) bool { return p.isCycleRejected(p.observedStack(s, name)) }))
		took = time.Since(answered)
		p.Expect(took).To(BeNumerically("<", reactionTimeout))
	})
	children := calls.Writes().Of("deployments.apps", "services", "jobs.batch", "controllerrevisions.apps")
	p.Expect(len(children)).To(BeZero(), "no children are written for a cycle:\n%s", children.Count())
	p.Expect(p.isCycleRejected(p.observedStack(p.watcher.State(), name))).To(BeTrue(), "the spec stays rejected")
	return took
}

func (p *watchedWorld) isCycleRejected(s *appsapi.AppStack) bool {
	if s == nil {
		return false
	}
	const message = "Components have a dependency cycle: a -> c -> b -> a; remove one of these dependencies"
	for kind, status := range map[string]string{"Ready": "False", "Stalled": "True"} {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != s.Generation || fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message) != status+"/InvalidSpec: "+message {
			return false
		}
	}
	return true
}

// fixCycle writes a spec without the cycle: exactly these components continue, in order.
func (p *watchedWorld) fixCycle(name string, spec appsapi.AppStackSpec, want ...string) time.Duration {
	p.Helper()
	f, err := p.timeline(name)
	p.fatal(err)
	answered, err := p.patchComponents(name, spec)
	p.fatal(err)
	stack, err := p.waitGenerationReady(name, int64(len(f.specs)+1))
	p.fatal(err)
	if len(want) == 0 {
		p.Expect(time.Since(answered)).To(BeNumerically("<", reactionTimeout))
	}
	p.Expect(meta.FindStatusCondition(stack.Status.Conditions, "Stalled")).To(BeNil())
	f, err = p.timeline(name)
	p.fatal(err)
	wrong, _ := f.checkOrder()
	p.Expect(wrong).To(BeEmpty())
	var rolledOut []string
	var slowest time.Duration
	for _, t := range f.rollouts() {
		if t.version < f.specs[len(f.specs)-1].version {
			continue
		}
		rolledOut = append(rolledOut, t.component)
		if dependencies := dependenciesOf(componentOf(&spec, t.component)); len(dependencies) == 0 {
			slowest = max(slowest, t.observedAt.Sub(answered))
		}
	}
	slices.Sort(rolledOut)
	slices.Sort(want)
	p.Expect(rolledOut).To(Equal(want))
	p.Expect(slowest).To(BeNumerically("<", reactionTimeout))
	return slowest
}
