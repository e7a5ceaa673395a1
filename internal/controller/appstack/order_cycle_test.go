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

// cycleBaseSpec is in order a, b, c.
const cycleBaseSpec = `
components:
- {name: a, service: {image: "shop/a:1"}}
- {name: b, dependsOn: [a], service: {image: "shop/b:1", ports: [{port: 80}]}}
- {name: c, bindings: [{component: b}], service: {image: "shop/c:1"}}
- {name: lone, service: {image: "shop/lone:1"}}
`

func (p *watchedWorld) decodeSpec(text string) appsapi.AppStackSpec {
	var spec appsapi.AppStackSpec
	p.Expect(yaml.UnmarshalStrict([]byte(text), &spec)).To(Succeed())
	return spec
}

// testDependencyCycles makes a circle by an edit and by a creation: it is named at once, nothing is
// written to any child, and the edit that removes it heals at once.
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

	// To what it was: nothing has to move.
	again := p.expectCycleRejected("edited", addCycle(&fixed), false)
	p.fixCycle("edited", fixed)

	fresh := p.expectCycleRejected("created", cyclic, true)
	createdAfter := p.fixCycle("created", fixed, "a", "lone", "b", "c")
	p.Logf("a circle is named after %s; without it, what waited goes on after %s", max(edited, again, fresh), max(fixedAfter, createdAfter))
}

func addCycle(spec *appsapi.AppStackSpec) *appsapi.AppStackSpec {
	spec = spec.DeepCopy()
	componentOf(spec, "a").DependsOn = []string{"c"}
	return spec
}

// expectCycleRejected asks for a circle, and waits a moment for what must not happen.
func (p *watchedWorld) expectCycleRejected(name string, spec *appsapi.AppStackSpec, create bool) (took time.Duration) {
	p.Helper()
	calls := p.OperatorRequests(func() {
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
		p.fatal(p.watcher.WaitFor(ctx, "the circle to be named", func(s watcher.State) bool { return p.isCycleRejected(p.observedStack(s, name)) }))
		took = time.Since(answered)
		p.Expect(took).To(BeNumerically("<", reactionTimeout))
		time.Sleep(reactionTimeout)
	})
	children := calls.Writes().Of("deployments.apps", "services", "jobs.batch", "controllerrevisions.apps")
	p.Expect(len(children)).To(BeZero(), "written although no order satisfies the spec:\n%s", children.Count())
	p.Expect(p.isCycleRejected(p.observedStack(p.watcher.State(), name))).To(BeTrue(), "it did not stay refused")
	return took
}

func (p *watchedWorld) isCycleRejected(s *appsapi.AppStack) bool {
	if s == nil {
		return false
	}
	const message = "Components depend on each other in a circle: a -> c -> b -> a; remove one of these dependencies"
	for kind, status := range map[string]string{"Ready": "False", "Stalled": "True"} {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != s.Generation || fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message) != status+"/InvalidSpec: "+message {
			return false
		}
	}
	return true
}

// fixCycle asks for a spec without the circle: these components go on, each as soon as it may,
// and nothing else does.
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
