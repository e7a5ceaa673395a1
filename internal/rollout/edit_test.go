package rollout

import (
	"fmt"
	"slices"
)

func (w *world) addPart() {
	n := w.next()
	p := part{
		name: fmt.Sprint("c", n), resource: fmt.Sprint("r", n), version: w.next(), rank: w.IntN(8),
		kind: [...]int{aService, aService, aService, aJob, aCronJob}[w.IntN(5)], replicas: [...]int32{0, 1, 1, 3, 4}[w.IntN(5)], ports: w.may(2),
	}
	p.needs = w.someNeeds(p)
	w.parts = slices.Insert(w.parts, w.IntN(len(w.parts)+1), p)
}

func (w *world) someNeeds(p part) []string {
	var out []string
	for _, o := range w.parts {
		if o.rank < p.rank && len(out) < 5 && w.may(3) {
			out = append(out, o.name)
		}
	}
	slices.Sort(out)
	return out
}

// edit changes the spec.
func (w *world) edit() {
	i := w.IntN(len(w.parts))
	p := &w.parts[i]
	w.tell("edit %s", p.name)
	switch w.IntN(13) {
	case 0, 1, 2:
		p.version = w.next()
	case 3:
		if len(w.parts) > 1 {
			w.parts = slices.Delete(w.parts, i, i+1)
		}
	case 4:
		if w.may(2) {
			w.parts = []part{*p}
		}
	case 5:
		w.rename(p)
	case 6:
		p.resource = fmt.Sprint("r", w.next())
		w.eachUser(p.name, w.touch)
	case 7:
		p.held = !p.held
	case 8:
		p.ports, p.version = !p.ports, w.next()
		w.eachUser(p.name, w.touch)
	case 9:
		if len(w.parts) < maxParts {
			w.addPart()
		}
	case 10:
		p.rank = w.IntN(8)
		p.needs = w.someNeeds(*p)
		w.touch(p)
	case 11:
		w.turn(p)
	case 12:
		if p.kind != aService {
			p.kind, p.version = aJob+aCronJob-p.kind, w.next()
		}
	}
	w.repair()
	w.rebuild()
}

// touch says that pods are now told something else. A job that runs once is not told: it
// has begun.
func (w *world) touch(p *part) {
	if p.kind != aJob {
		p.version = w.next()
	}
}

func (w *world) eachUser(name string, f func(*part)) {
	for i := range w.parts {
		if slices.Contains(w.parts[i].needs, name) {
			f(&w.parts[i])
		}
	}
}

func (w *world) rename(p *part) {
	p.from, p.name = p.name, fmt.Sprint("c", w.next())
	if w.may(2) {
		p.resource = fmt.Sprint("r", w.next())
	}
	w.eachUser(p.from, func(u *part) {
		u.needs = slices.Clone(u.needs)
		u.needs[slices.Index(u.needs, p.from)] = p.name
		slices.Sort(u.needs)
		w.touch(u)
	})
}

// turn turns one of the edges of a part around.
func (w *world) turn(p *part) {
	if len(p.needs) == 0 {
		return
	}
	q := w.part(p.needs[w.IntN(len(p.needs))])
	p.rank, q.rank = q.rank, p.rank
	q.needs = append(slices.Clone(q.needs), p.name)
	slices.Sort(q.needs)
	w.touch(q)
}

// repair takes away edges that lead nowhere, or upwards.
func (w *world) repair() {
	ranks := map[string]int{}
	for _, p := range w.parts {
		ranks[p.name] = p.rank
	}
	for i := range w.parts {
		p := &w.parts[i]
		bad := func(need string) bool { rank, ok := ranks[need]; return !ok || rank >= p.rank }
		if slices.ContainsFunc(p.needs, bad) {
			p.needs = slices.DeleteFunc(slices.Clone(p.needs), bad)
			w.touch(p)
		}
	}
}
