package appstack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// rapidEditCount is the number of edits during earlier rollouts.
const rapidEditCount = 6

// randomEdits returns edits that are applied without waiting; the last one is valid.
func (r rng) randomEdits() []appsapi.AppStackSpec {
	spec := r.randomStack(3 + r.IntN(5))
	specs := []appsapi.AppStackSpec{*spec.DeepCopy()}
	for i := range rapidEditCount {
		r.randomEdit(&spec, i+2)
		specs = append(specs, *spec.DeepCopy())
	}
	for i := range spec.Components {
		if c := &spec.Components[i]; isBroken(c) || i == 0 {
			setImage(c, r.randomImage(c.Name, rapidEditCount+2))
		}
	}
	return append(specs, spec)
}

// randomEdit makes one random edit.
func (r rng) randomEdit(spec *appsapi.AppStackSpec, version int) {
	c := &spec.Components[r.IntN(len(spec.Components))]
	switch r.IntN(6) {
	case 0:
		setImage(c, fmt.Sprintf("shop/%s:3-never", c.Name))
	case 1:
		if len(spec.Components) > 2 {
			name := c.Name
			spec.Components = slices.DeleteFunc(spec.Components, func(o appsapi.Component) bool { return o.Name == name })
			removeDependenciesOn(spec, name)
			return
		}
	case 2:
		added := appsapi.Component{Name: fmt.Sprintf("n%d", version), Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{Replicas: new(int32(1))}}}
		added.Service.Image = r.randomImage(added.Name, 1)
		r.addDependency(&added, c)
		spec.Components = append(spec.Components, added)
		return
	case 3:
		removeDependenciesOn(spec, c.Name)
	case 4:
		if c.Service != nil {
			c.Service.Replicas = new(int32(1 + r.IntN(4)))
		}
	}
	for i := range spec.Components {
		if c := &spec.Components[i]; r.oneIn(3) {
			setImage(c, r.randomImage(c.Name, version+10))
		}
	}
}

// testRapidEdits edits stacks faster than they roll out: the final state is that of the last edit, and the order of
// dependencies is always kept.
func (p *watchedWorld) testRapidEdits() {
	skipUnlessLong(p.T)
	r, n := newRNG(p.T), 40
	edits, pauses := make([][]appsapi.AppStackSpec, n), make([][]time.Duration, n)
	for i := range edits {
		edits[i] = r.randomEdits()
		for range edits[i] {
			pauses[i] = append(pauses[i], time.Duration(r.IntN(500))*time.Millisecond)
		}
	}
	rollouts, probe := make([]int, n), p.startLatencyProbe()
	err := runConcurrently(n, 2*concurrentStacks, func(i int) (err error) {
		rollouts[i], err = p.runRapidEdits(fmt.Sprintf("storm%d", i), edits[i], pauses[i], probe)
		return err
	})
	all := 0
	for _, t := range rollouts {
		all += t
	}
	p.Logf("%d stacks with %d edits each without waiting: %d creations and rollouts, in order", n, rapidEditCount+1, all)
	p.fatal(err)
}

// runRapidEdits edits a stack and returns the number of creations and rollouts.
func (p *watchedWorld) runRapidEdits(name string, specs []appsapi.AppStackSpec, pauses []time.Duration, probe *latencyProbe) (int, error) {
	if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.objectMeta(name), Spec: *specs[0].DeepCopy()}); err != nil {
		return 0, err
	}
	for i, spec := range specs[1:] {
		time.Sleep(pauses[i]) // random time between edits
		if _, err := p.patchComponents(name, spec); err != nil {
			return 0, err
		}
	}
	final := &specs[len(specs)-1]
	generation := p.generation(name)
	if _, err := p.waitGenerationReady(name, generation); err != nil {
		return 0, err
	}
	// A stack can be ready while removed components are still being deleted.
	err := p.waitTimeline(name, "without removed components", func(f *timeline) bool {
		for component, scenes := range f.states {
			if last := scenes[len(scenes)-1]; componentOf(final, component) == nil && !last.deleted && !last.job {
				return false
			}
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	f, err := p.timeline(name)
	if err != nil {
		return 0, err
	}
	var wrong []string
	for i := range final.Components {
		if c := &final.Components[i]; !f.isReady(c) {
			wrong = append(wrong, fmt.Sprintf("%s: want %s, got %v", c.Name, desiredPodSummary(c), f.states[c.Name]))
		}
	}
	for _, t := range f.rollouts() {
		wrong = append(wrong, f.violationsDuringEdits(t, probe)...)
	}
	if len(wrong) > 0 {
		return 0, errors.New(name + ": " + strings.Join(wrong, "\n"))
	}
	return len(f.rollouts()), nil
}

// violationsDuringEdits returns violations for a rollout that is allowed neither by the current spec nor by one that was
// replaced within the last second, because the operator cannot read and write atomically.
func (f *timeline) violationsDuringEdits(t rollout, probe *latencyProbe) []string {
	var violations []string
	for i := range slices.Backward(f.specs) {
		spec := &f.specs[i]
		if spec.version > t.version {
			continue
		}
		wrong, _ := f.violations(t, spec)
		if len(wrong) == 0 {
			return nil
		}
		violations = append(violations, wrong...)
		if t.observedAt.Sub(spec.observedAt) > time.Second+3*probe.slowestBetween(spec.observedAt, t.observedAt) {
			break // active long enough to be observed
		}
	}
	return violations
}

func (p *watchedWorld) generation(name string) int64 {
	var stack appsapi.AppStack
	if err := p.Get(p.Context(), client.ObjectKey{Namespace: p.NS, Name: name}, &stack); err != nil {
		p.Error(err)
	}
	return stack.Generation
}
