package revision

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Plan is the plan for the revisions of an application.
type Plan struct {
	// Current is the revision of the applied spec; nil if it must be created.
	Current *appsv1.ControllerRevision
	// Number is the number that the revision of the applied spec must have: the highest.
	Number int64
	// Healthy is the newest healthy revision, or nil.
	Healthy *appsv1.ControllerRevision
	// Prune are the revisions beyond the limit, oldest first.
	Prune []*appsv1.ControllerRevision
}

// defaultLimit is the default number of stored revisions.
const defaultLimit = 10

// NewPlan plans the revisions of an application. name is the name of the revision of the applied
// spec; a limit of 0 means the default.
func NewPlan(keys *appsapi.Keys, name string, revisions []*appsv1.ControllerRevision, limit int) Plan {
	if limit == 0 {
		limit = defaultLimit
	}
	sorted := slices.Clone(revisions)
	slices.SortFunc(sorted, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Name, b.Name))
	})
	var plan Plan
	for _, r := range sorted {
		if r.Name == name {
			plan.Current = r
		}
		if plan.Healthy == nil && IsHealthy(keys, r) {
			plan.Healthy = r
		}
	}
	switch {
	// Two revisions with the same number come from an operator that had not observed the other one.
	case plan.Current != nil && plan.Current == sorted[0] && (len(sorted) == 1 || sorted[1].Revision < plan.Current.Revision):
		plan.Number = plan.Current.Revision
	case len(sorted) > 0:
		plan.Number = sorted[0].Revision + 1
	default:
		plan.Number = 1
	}
	retained := 1 // the applied one
	for _, r := range sorted {
		if r == plan.Current {
			continue
		}
		if retained++; retained > limit && r != plan.Healthy {
			plan.Prune = append(plan.Prune, r)
		}
	}
	slices.Reverse(plan.Prune)
	return plan
}

// Replace replaces a revision in the plan by its new version.
func (p *Plan) Replace(before, after *appsv1.ControllerRevision) {
	if p.Current == before {
		p.Current = after
	}
	if p.Healthy == before {
		p.Healthy = after
	}
	if i := slices.Index(p.Prune, before); i >= 0 {
		p.Prune[i] = after
	}
}

// IsHealthy reports whether all components were ready with a revision.
func IsHealthy(keys *appsapi.Keys, r *appsv1.ControllerRevision) bool {
	return r.Annotations[keys.RevisionHealthy] == "true"
}
