package rollout

import (
	"maps"
	"slices"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
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

// Settled is what becomes of a claim or Secret of an application that is deleted.
type Settled struct {
	Labels
	Purge bool
}

// Settle decides about data whose application is being deleted and whose workloads are gone.
// What is not the application's by UID, or was kept on purpose before, stays as it is.
func Settle(owner desired.Owner, components []desired.Component, kept []desired.Kept, purge bool) []Settled {
	var out []Settled
	add := func(k desired.Kept, want map[string]string) {
		want[appsapi.LabelRetained] = "true"
		switch uid := k.GetLabels()[appsapi.LabelOwnerUID]; {
		case k.Retained(), uid != "" && uid != string(owner.UID), purge && opens(k, kept):
		case purge && uid != "":
			out = append(out, Settled{Labels{k, want}, true})
		case purge: // it has to say first whose it is
			delete(want, appsapi.LabelRetained)
			out = append(out, Settled{Labels{k, want}, false})
		default:
			out = append(out, Settled{Labels{k, want}, false})
		}
	}
	for _, c := range components {
		if c.Data != nil && c.Data.Refused == "" {
			for _, k := range c.Data.Kept {
				add(k, desired.KeptLabels(owner, c))
			}
		}
	}
	for _, k := range desired.Unwanted(owner, components, kept) {
		add(k, maps.Clone(k.GetLabels()))
	}
	return out
}

// opens says whether a Secret has the passwords to data that is still there: they go after
// it.
func opens(k desired.Kept, kept []desired.Kept) bool {
	return k.Claim == nil && slices.ContainsFunc(kept, func(o desired.Kept) bool { return o.Claim != nil && o.Workload() == k.Workload() })
}

// HasData says whether there is data whose fate has to be settled before its application
// can go.
func HasData(owner desired.Owner, components []desired.Component, kept []desired.Kept) bool {
	return slices.ContainsFunc(components, func(c desired.Component) bool { return c.Data != nil }) ||
		slices.ContainsFunc(kept, func(k desired.Kept) bool {
			return k.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID) && !k.Retained()
		})
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
