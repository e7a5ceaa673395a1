// Package rollout decides: which children of which components are applied now, and
// which are removed, from what is wanted and what was seen.
//
// Safety rule: it only ever removes what a component says it must not have.
package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Object is a child as it was seen.
type Object interface {
	metav1.Object
	runtime.Object
}

// Seen is what was observed: every child of every component that exists.
type Seen map[desired.ID]Object

// Plan is what to do now, one step per component, in order.
type Plan struct {
	Steps []Step
}

// Step is what to do for one component. Its applies do not depend on each other; its
// removals follow when all of them succeeded.
type Step struct {
	Component string
	Apply     []desired.Child
	Remove    []desired.ID
}

// For plans what to do.
func For(owner desired.Owner, components []desired.Component, seen Seen) Plan {
	var plan Plan
	for _, c := range components {
		if c.Suspended {
			continue
		}
		step := Step{Component: c.Name, Apply: c.Children}
		for _, id := range c.Absent {
			if mayGo(owner, seen[id]) {
				step.Remove = append(step.Remove, id)
			}
		}
		plan.Steps = append(plan.Steps, step)
	}
	return plan
}

// mayGo says whether a child that is not wanted is there, ours, and not kept on purpose.
func mayGo(owner desired.Owner, live Object) bool {
	return live != nil && live.GetDeletionTimestamp() == nil &&
		metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: owner.UID}) &&
		live.GetAnnotations()[appsapi.AnnotationPrune] != appsapi.PruneDisabled
}
