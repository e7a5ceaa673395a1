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

// orderChain is in order a, b, c.
const orderChain = `
components:
- {name: a, service: {image: "shop/a:1"}}
- {name: b, dependsOn: [a], service: {image: "shop/b:1", ports: [{port: 80}]}}
- {name: c, bindings: [{component: b}], service: {image: "shop/c:1"}}
- {name: lone, service: {image: "shop/lone:1"}}
`

func (p *playground) spec(text string) appsapi.AppStackSpec {
	var spec appsapi.AppStackSpec
	p.Expect(yaml.UnmarshalStrict([]byte(text), &spec)).To(Succeed())
	return spec
}

// testCircles makes a circle by an edit and by a creation: it is named at once, nothing is
// written to any child, and the edit that removes it heals at once.
func (p *playground) testCircles() {
	healthy := p.spec(orderChain)
	p.fatal(p.install("edited", healthy))
	circle := addCircle(&healthy)
	for _, name := range []string{"a", "lone"} {
		setImage(componentOf(circle, name), "shop/"+name+":2")
	}
	edited := p.refuses("edited", circle, false)
	healed := *circle.DeepCopy()
	componentOf(&healed, "a").DependsOn = nil
	moved := p.heals("edited", healed, "a", "lone")

	// To what it was: nothing has to move.
	again := p.refuses("edited", addCircle(&healed), false)
	p.heals("edited", healed)

	fresh := p.refuses("created", circle, true)
	made := p.heals("created", healed, "a", "lone", "b", "c")
	p.Logf("a circle is named after %s; without it, what waited goes on after %s", max(edited, again, fresh), max(moved, made))
}

func addCircle(spec *appsapi.AppStackSpec) *appsapi.AppStackSpec {
	spec = spec.DeepCopy()
	componentOf(spec, "a").DependsOn = []string{"c"}
	return spec
}

// refuses asks for a circle, and waits a moment for what must not happen.
func (p *playground) refuses(name string, spec *appsapi.AppStackSpec, create bool) (took time.Duration) {
	p.Helper()
	calls := p.Calls(func() {
		var answered time.Time
		var err error
		if create {
			err = p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.meta(name), Spec: *spec.DeepCopy()})
			answered = time.Now()
		} else {
			answered, err = p.patch(name, *spec)
		}
		p.fatal(err)
		ctx, cancel := context.WithTimeout(p.Context(), 30*time.Second)
		defer cancel()
		p.fatal(p.eye.WaitFor(ctx, "the circle to be named", func(s watcher.State) bool { return p.isRefused(p.seen(s, name)) }))
		took = time.Since(answered)
		p.Expect(took).To(BeNumerically("<", effective))
		time.Sleep(effective)
	})
	children := calls.Writes().Of("deployments.apps", "services", "jobs.batch", "controllerrevisions.apps")
	p.Expect(len(children)).To(BeZero(), "written although no order satisfies the spec:\n%s", children.Count())
	p.Expect(p.isRefused(p.seen(p.eye.State(), name))).To(BeTrue(), "it did not stay refused")
	return took
}

func (p *playground) isRefused(s *appsapi.AppStack) bool {
	if s == nil {
		return false
	}
	const why = "Components depend on each other in a circle: a -> c -> b -> a; remove one of these dependencies"
	for kind, status := range map[string]string{"Ready": "False", "Stalled": "True"} {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil || c.ObservedGeneration != s.Generation || fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message) != status+"/InvalidSpec: "+why {
			return false
		}
	}
	return true
}

// heals asks for a spec without the circle: these components go on, each as soon as it may,
// and nothing else does.
func (p *playground) heals(name string, spec appsapi.AppStackSpec, want ...string) time.Duration {
	p.Helper()
	f, err := p.film(name)
	p.fatal(err)
	answered, err := p.patch(name, spec)
	p.fatal(err)
	is, err := p.waitReady(name, int64(len(f.specs)+1))
	p.fatal(err)
	if len(want) == 0 {
		p.Expect(time.Since(answered)).To(BeNumerically("<", effective))
	}
	p.Expect(meta.FindStatusCondition(is.Status.Conditions, "Stalled")).To(BeNil())
	f, err = p.film(name)
	p.fatal(err)
	wrong, _ := f.judge()
	p.Expect(wrong).To(BeEmpty())
	var moved []string
	var most time.Duration
	for _, t := range f.turns() {
		if t.version < f.specs[len(f.specs)-1].version {
			continue
		}
		moved = append(moved, t.component)
		if needs := needsOf(componentOf(&spec, t.component)); len(needs) == 0 {
			most = max(most, t.seen.Sub(answered))
		}
	}
	slices.Sort(moved)
	slices.Sort(want)
	p.Expect(moved).To(Equal(want))
	p.Expect(most).To(BeNumerically("<", effective))
	return most
}
