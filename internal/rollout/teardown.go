package rollout

import (
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Teardown is what to do with an application that is being deleted.
type Teardown struct {
	Delete []Removal
	// Waits are the children that are on their way out.
	Waits []Kept
	// Done is set when nothing is left that has to go in order.
	Done bool
}

// Down plans the deletion of an application from what exists, not from what its spec would
// make of it: first the components that no other one needs.
func Down(owner desired.Owner, seen Seen) Teardown {
	p := newPlanner(Input{Owner: owner, Seen: seen})
	p.needs = map[string][]string{} // of jobs that have ended, too
	for _, l := range p.leftovers {
		p.needs[l.component] = append(p.needs[l.component], desired.Edges(l.live)...)
	}
	free := map[string]bool{}
	for component := range p.needs {
		// A circle, which edits can make while a component is suspended, goes together:
		// better in no order than never. What it needs goes after it.
		free[component] = p.user(p.circle(component)) == ""
	}
	down := Teardown{Done: len(p.leftovers) == 0}
	for _, l := range p.leftovers {
		switch {
		case !free[l.component], p.serves(l):
		case l.live.GetDeletionTimestamp() != nil:
			down.Waits = append(down.Waits, Kept{l.component, leaving(l)})
		default:
			down.Delete = append(down.Delete, Removal{l.component, l.id})
		}
	}
	return down
}

// Ordered says whether the order in which children go matters: some need others.
func Ordered(components []desired.Component, seen Seen) bool {
	for _, c := range components {
		if len(c.DependsOn) > 0 {
			return true
		}
	}
	for _, live := range seen {
		if len(desired.Edges(live)) > 0 {
			return true
		}
	}
	return false
}
