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
	// Terminating are the children that are on their way out.
	Terminating []PendingRemoval
	// Done is set when nothing is left that has to go in order.
	Done bool
}

// PlanTeardown plans the deletion of an application from what exists, not from what its spec would
// make of it: first the components that no other one needs.
func PlanTeardown(owner desired.Owner, observed Observed) Teardown {
	p := newPlanner(Input{Owner: owner, Observed: observed})
	p.dependencies = map[string][]string{} // of jobs that have ended, too
	for _, l := range p.leftovers {
		p.dependencies[l.component] = append(p.dependencies[l.component], desired.PodDependencies(l.live)...)
	}
	removable := map[string]bool{}
	for component := range p.dependencies {
		// A circle, which edits can make while a component is suspended, goes together:
		// better in no order than never. What it needs goes after it.
		removable[component] = p.dependentOf(p.dependencyCycle(component)) == ""
	}
	teardown := Teardown{Done: len(p.leftovers) == 0}
	for _, l := range p.leftovers {
		switch {
		case !removable[l.component], p.isInUse(l):
		case l.live.GetDeletionTimestamp() != nil:
			teardown.Terminating = append(teardown.Terminating, PendingRemoval{l.component, terminatingMessage(l)})
		default:
			teardown.Delete = append(teardown.Delete, Removal{l.component, l.id})
		}
	}
	return teardown
}

// DataFinalization is what becomes of a claim or Secret of an application that is deleted.
type DataFinalization struct {
	LabelUpdate
	Purge bool
}

// FinalizeData decides about data whose application is being deleted and whose workloads are gone.
// What is not the application's by UID, or was kept on purpose before, stays as it is.
func FinalizeData(owner desired.Owner, components []desired.Component, retained []desired.RetainedObject, purge bool) []DataFinalization {
	var out []DataFinalization
	add := func(k desired.RetainedObject, want map[string]string) {
		want[appsapi.LabelRetained] = "true"
		switch uid := k.GetLabels()[appsapi.LabelOwnerUID]; {
		case k.MarkedRetained(), uid != "" && uid != string(owner.UID), purge && unlocksExistingData(k, retained):
		case purge && uid != "":
			out = append(out, DataFinalization{LabelUpdate{k, want}, true})
		case purge: // it has to say first whose it is
			delete(want, appsapi.LabelRetained)
			out = append(out, DataFinalization{LabelUpdate{k, want}, false})
		default:
			out = append(out, DataFinalization{LabelUpdate{k, want}, false})
		}
	}
	for _, c := range components {
		if c.Data != nil && c.Data.Conflict == "" {
			for _, k := range c.Data.Retained {
				add(k, desired.RetainedLabels(owner, c))
			}
		}
	}
	for _, k := range desired.UnusedRetained(owner, components, retained) {
		add(k, maps.Clone(k.GetLabels()))
	}
	return out
}

// unlocksExistingData says whether a Secret has the passwords to data that is still there: they go after
// it.
func unlocksExistingData(k desired.RetainedObject, retained []desired.RetainedObject) bool {
	return k.Claim == nil && slices.ContainsFunc(retained, func(o desired.RetainedObject) bool { return o.Claim != nil && o.WorkloadID() == k.WorkloadID() })
}

// HasData says whether there is data whose fate has to be settled before its application
// can go.
func HasData(owner desired.Owner, components []desired.Component, retained []desired.RetainedObject) bool {
	return slices.ContainsFunc(components, func(c desired.Component) bool { return c.Data != nil }) ||
		slices.ContainsFunc(retained, func(k desired.RetainedObject) bool {
			return k.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID) && !k.MarkedRetained()
		})
}

// RequiresOrder says whether the order in which children go matters: some need others.
func RequiresOrder(components []desired.Component, observed Observed) bool {
	for _, c := range components {
		if len(c.DependsOn) > 0 {
			return true
		}
	}
	for _, live := range observed {
		if len(desired.PodDependencies(live)) > 0 {
			return true
		}
	}
	return false
}
