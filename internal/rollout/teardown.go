package rollout

import (
	"maps"
	"slices"

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
	all := newPlanner(Input{Owner: owner, Seen: seen}).leftovers
	users := map[string]map[string]bool{}
	for _, l := range all {
		if users[l.component] == nil {
			users[l.component] = map[string]bool{}
		}
	}
	for _, l := range all {
		for _, dep := range desired.Edges(l.live) {
			if users[dep] != nil && dep != l.component {
				users[dep][l.component] = true
			}
		}
	}
	free := map[string]bool{}
	for component := range users {
		free[component] = len(users[component]) == 0
	}
	if !slices.Contains(slices.Collect(maps.Values(free)), true) {
		// A circle, which only somebody else's edits can make: better in no order than never.
		for component := range free {
			free[component] = true
		}
	}
	down := Teardown{Done: len(all) == 0}
	for _, l := range all {
		switch {
		case !free[l.component]:
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
