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

// stormEdits is how often a stack is edited while it is still busy with the edits before.
const stormEdits = 6

// storm are edits that do not wait for each other; with the last one everything can work.
func (r chance) storm() []appsapi.AppStackSpec {
	spec := r.stack(3 + r.IntN(5))
	specs := []appsapi.AppStackSpec{*spec.DeepCopy()}
	for i := range stormEdits {
		r.disturb(&spec, i+2)
		specs = append(specs, *spec.DeepCopy())
	}
	for i := range spec.Components {
		if c := &spec.Components[i]; isBroken(c) || i == 0 {
			setImage(c, r.image(c.Name, stormEdits+2))
		}
	}
	return append(specs, spec)
}

// disturb makes one random edit.
func (r chance) disturb(spec *appsapi.AppStackSpec, version int) {
	c := &spec.Components[r.IntN(len(spec.Components))]
	switch r.IntN(6) {
	case 0:
		setImage(c, fmt.Sprintf("shop/%s:3-never", c.Name))
	case 1:
		if len(spec.Components) > 2 {
			name := c.Name
			spec.Components = slices.DeleteFunc(spec.Components, func(o appsapi.Component) bool { return o.Name == name })
			disconnect(spec, name)
			return
		}
	case 2:
		added := appsapi.Component{Name: fmt.Sprintf("n%d", version), Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{Replicas: new(int32(1))}}}
		added.Service.Image = r.image(added.Name, 1)
		r.connect(&added, c)
		spec.Components = append(spec.Components, added)
		return
	case 3:
		disconnect(spec, c.Name)
	case 4:
		if c.Service != nil {
			c.Service.Replicas = new(int32(1 + r.IntN(4)))
		}
	}
	for i := range spec.Components {
		if c := &spec.Components[i]; r.one(3) {
			setImage(c, r.image(c.Name, version+10))
		}
	}
}

// testStorms edits stacks faster than they can follow: each ends as the last edit says, and
// on the way there nothing comes before what it needs.
func (p *playground) testStorms() {
	onlyLong(p.T)
	r, n := newChance(p.T), 40
	storms, pauses := make([][]appsapi.AppStackSpec, n), make([][]time.Duration, n)
	for i := range storms {
		storms[i] = r.storm()
		for range storms[i] {
			pauses[i] = append(pauses[i], time.Duration(r.IntN(500))*time.Millisecond)
		}
	}
	turns, heart := make([]int, n), p.feelPulse()
	err := together(n, 2*sideBySide, func(i int) (err error) {
		turns[i], err = p.weather(fmt.Sprintf("storm%d", i), storms[i], pauses[i], heart)
		return err
	})
	all := 0
	for _, t := range turns {
		all += t
	}
	p.Logf("%d stacks were edited %d times each without a break: %d creations and rollouts, in order", n, stormEdits+1, all)
	p.fatal(err)
}

// weather plays a storm and returns how many creations and rollouts it took.
func (p *playground) weather(name string, specs []appsapi.AppStackSpec, pauses []time.Duration, heart *pulse) (int, error) {
	if err := p.Create(p.Context(), &appsapi.AppStack{ObjectMeta: p.meta(name), Spec: *specs[0].DeepCopy()}); err != nil {
		return 0, err
	}
	for i, spec := range specs[1:] {
		time.Sleep(pauses[i])
		if _, err := p.patch(name, spec); err != nil {
			return 0, err
		}
	}
	final := &specs[len(specs)-1]
	generation := p.generation(name)
	if _, err := p.waitReady(name, generation); err != nil {
		return 0, err
	}
	// What is on its way out does not keep a stack from being ready.
	err := p.until(name, "without what left the spec", func(f *film) bool {
		for component, scenes := range f.scenes {
			if last := scenes[len(scenes)-1]; componentOf(final, component) == nil && !last.gone && !last.job {
				return false
			}
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	f, err := p.film(name)
	if err != nil {
		return 0, err
	}
	var wrong []string
	for i := range final.Components {
		if c := &final.Components[i]; !f.isReady(c) {
			wrong = append(wrong, fmt.Sprintf("%s is not %s: %v", c.Name, shapeOf(c), f.scenes[c.Name]))
		}
	}
	for _, t := range f.turns() {
		wrong = append(wrong, f.inStorm(t, heart)...)
	}
	if len(wrong) > 0 {
		return 0, errors.New(name + ": " + strings.Join(wrong, "\n"))
	}
	return len(f.turns()), nil
}

// inStorm objects to a turn that neither the spec of that moment allows nor one that was
// replaced within the second before: nobody can look and write at once.
func (f *film) inStorm(t turn, heart *pulse) []string {
	var objections []string
	for i := range slices.Backward(f.specs) {
		asked := &f.specs[i]
		if asked.version > t.version {
			continue
		}
		wrong, _ := f.objections(t, asked)
		if len(wrong) == 0 {
			return nil
		}
		objections = append(objections, wrong...)
		if t.seen.Sub(asked.seen) > time.Second+3*heart.slowest(asked.seen, t.seen) {
			break // it was asked for long enough to be known
		}
	}
	return objections
}

func (p *playground) generation(name string) int64 {
	var stack appsapi.AppStack
	if err := p.Get(p.Context(), client.ObjectKey{Namespace: p.NS, Name: name}, &stack); err != nil {
		p.Error(err)
	}
	return stack.Generation
}
