package rollout

import (
	"maps"
	"slices"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Teardown is the plan for an application that is being deleted.
type Teardown struct {
	Delete []Removal
	// Terminating are the children that are being deleted.
	Terminating []PendingRemoval
	// Done is set if no children are left that must be deleted in order.
	Done bool
}

// PlanTeardown plans the deletion of an application from the existing children, not from its spec:
// components without dependents are deleted first.
func PlanTeardown(owner desired.Owner, observed Observed) Teardown {
	p := newPlanner(Input{Owner: owner, Observed: observed})
	p.dependencies = map[string][]string{} // including those of finished jobs
	for _, l := range p.leftovers {
		p.dependencies[l.component] = append(p.dependencies[l.component], desired.PodDependencies(owner.Keys, l.live)...)
	}
	removable := map[string]bool{}
	for component := range p.dependencies {
		// The components of a cycle are deleted together, and their dependencies after them:
		// otherwise the deletion would never finish. Edits can create a cycle while a component is
		// suspended.
		removable[component] = p.dependentOf(p.dependencyCycle(component)) == ""
	}
	teardown := Teardown{Done: len(p.leftovers) == 0}
	for _, l := range p.leftovers {
		switch {
		case !removable[l.component], p.isInUse(l):
		case l.live.GetDeletionTimestamp() != nil:
			teardown.Terminating = append(teardown.Terminating, p.pendingDeletion(l))
		default:
			teardown.Delete = append(teardown.Delete, Removal{l.component, l.id})
		}
	}
	return teardown
}

// DataFinalization is the plan for a claim or Secret of an application that is being deleted.
type DataFinalization struct {
	LabelUpdate
	Purge bool
}

// PlanDataFinalization plans the data of an application that is being deleted, after its workloads are
// gone. Data with the UID of another owner, and data that was retained before, is unchanged.
func PlanDataFinalization(owner desired.Owner, components []desired.Component, retained []desired.RetainedObject, purge bool) []DataFinalization {
	var out []DataFinalization
	add := func(k desired.RetainedObject, want map[string]string) {
		want[owner.Keys.Retained] = "true"
		switch uid := k.GetLabels()[owner.Keys.OwnerUID]; {
		case k.MarkedRetained(), uid != "" && uid != string(owner.UID), purge && isNeededByExistingData(k, retained):
		case purge && uid != "":
			out = append(out, DataFinalization{LabelUpdate{k, want}, true})
		case purge: // label it with the owner first
			delete(want, owner.Keys.Retained)
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

// isNeededByExistingData reports whether a Secret has the passwords of data that still exists. Such a
// Secret is deleted after the data.
func isNeededByExistingData(k desired.RetainedObject, retained []desired.RetainedObject) bool {
	return k.Claim == nil && slices.ContainsFunc(retained, func(o desired.RetainedObject) bool { return o.Claim != nil && o.WorkloadID() == k.WorkloadID() })
}

// HasData reports whether an application has data that must be labeled or deleted before the
// application is deleted.
func HasData(owner desired.Owner, components []desired.Component, retained []desired.RetainedObject) bool {
	return slices.ContainsFunc(components, func(c desired.Component) bool { return c.Data != nil }) ||
		slices.ContainsFunc(retained, func(k desired.RetainedObject) bool {
			return k.GetLabels()[owner.Keys.OwnerUID] == string(owner.UID) && !k.MarkedRetained()
		})
}

// RequiresOrder reports whether the children must be deleted in order, because components depend on
// each other.
func RequiresOrder(keys *appsapi.Keys, components []desired.Component, observed Observed) bool {
	for _, c := range components {
		if len(c.DependsOn) > 0 {
			return true
		}
	}
	for _, live := range observed {
		if len(desired.PodDependencies(keys, live)) > 0 {
			return true
		}
	}
	return false
}
