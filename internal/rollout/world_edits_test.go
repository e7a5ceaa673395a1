package rollout

import (
	"fmt"
	"slices"
)

func (w *world) addComponent() {
	n := w.nextSerial()
	p := testComponent{
		name: fmt.Sprint("c", n), resourceName: fmt.Sprint("r", n), version: w.nextSerial(), rank: w.IntN(8),
		kind: [...]int{kindService, kindService, kindService, kindJob, kindCronJob}[w.IntN(5)], replicas: [...]int32{0, 1, 1, 3, 4}[w.IntN(5)], ports: w.oneIn(2),
	}
	p.dependencies = w.randomDependencies(p)
	w.testComponents = slices.Insert(w.testComponents, w.IntN(len(w.testComponents)+1), p)
}

func (w *world) randomDependencies(p testComponent) []string {
	var out []string
	for _, o := range w.testComponents {
		if o.rank < p.rank && len(out) < 5 && w.oneIn(3) {
			out = append(out, o.name)
		}
	}
	slices.Sort(out)
	return out
}

// edit changes the spec.
func (w *world) edit() {
	i := w.IntN(len(w.testComponents))
	p := &w.testComponents[i]
	w.tracef("edit %s", p.name)
	switch w.IntN(13) {
	case 0, 1, 2:
		p.version = w.nextSerial()
	case 3:
		if len(w.testComponents) > 1 {
			w.testComponents = slices.Delete(w.testComponents, i, i+1)
		}
	case 4:
		if w.oneIn(2) {
			w.testComponents = []testComponent{*p}
		}
	case 5:
		w.rename(p)
	case 6:
		p.resourceName = fmt.Sprint("r", w.nextSerial())
		w.eachDependent(p.name, w.bumpVersion)
	case 7:
		p.suspended = !p.suspended
	case 8:
		p.ports, p.version = !p.ports, w.nextSerial()
		w.eachDependent(p.name, w.bumpVersion)
	case 9:
		if len(w.testComponents) < maxComponents {
			w.addComponent()
		}
	case 10:
		p.rank = w.IntN(8)
		p.dependencies = w.randomDependencies(*p)
		w.bumpVersion(p)
	case 11:
		w.reverseDependency(p)
	case 12:
		if p.kind != kindService {
			p.kind, p.version = kindJob+kindCronJob-p.kind, w.nextSerial()
		}
	}
	w.dropInvalidDependencies()
	w.rebuild()
}

// bumpVersion changes the pod template because of a changed dependency. A job that runs once keeps
// it, because it has started.
func (w *world) bumpVersion(p *testComponent) {
	if p.kind != kindJob {
		p.version = w.nextSerial()
	}
}

func (w *world) eachDependent(name string, f func(*testComponent)) {
	for i := range w.testComponents {
		if slices.Contains(w.testComponents[i].dependencies, name) {
			f(&w.testComponents[i])
		}
	}
}

func (w *world) rename(p *testComponent) {
	p.renamedFrom, p.name = p.name, fmt.Sprint("c", w.nextSerial())
	if w.oneIn(2) {
		p.resourceName = fmt.Sprint("r", w.nextSerial())
	}
	w.eachDependent(p.renamedFrom, func(u *testComponent) {
		u.dependencies = slices.Clone(u.dependencies)
		u.dependencies[slices.Index(u.dependencies, p.renamedFrom)] = p.name
		slices.Sort(u.dependencies)
		w.bumpVersion(u)
	})
}

// reverseDependency reverses one dependency of a component.
func (w *world) reverseDependency(p *testComponent) {
	if len(p.dependencies) == 0 {
		return
	}
	q := w.component(p.dependencies[w.IntN(len(p.dependencies))])
	p.rank, q.rank = q.rank, p.rank
	q.dependencies = append(slices.Clone(q.dependencies), p.name)
	slices.Sort(q.dependencies)
	w.bumpVersion(q)
}

// dropInvalidDependencies removes unknown dependencies and those on higher ranks.
func (w *world) dropInvalidDependencies() {
	ranks := map[string]int{}
	for _, p := range w.testComponents {
		ranks[p.name] = p.rank
	}
	for i := range w.testComponents {
		p := &w.testComponents[i]
		bad := func(need string) bool { rank, ok := ranks[need]; return !ok || rank >= p.rank }
		if slices.ContainsFunc(p.dependencies, bad) {
			p.dependencies = slices.DeleteFunc(slices.Clone(p.dependencies), bad)
			w.bumpVersion(p)
		}
	}
}
