package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/own"
)

// ready sums up, the most important first: what could not be seen, what can never work,
// what could not be written, what does not run, what waits, what is still on its way.
func ready(views []view, done *outcome) summary {
	if done.failed != nil {
		return summary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: fmt.Sprintf("The state in the cluster could not be read: %v", done.failed), waits: true}
	}
	if s, ok := failure(views, done); ok {
		return s
	}
	active := slices.DeleteFunc(slices.Clone(views), func(v view) bool { return v.component.Suspended })
	for _, find := range []func([]view, *outcome) (summary, bool){broken, contested, waiting, unfinished} {
		if s, ok := find(active, done); ok {
			return s
		}
	}
	if len(done.plan.Keep) > 0 {
		return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing, message: done.plan.Keep[0].Why, waits: true}
	}
	return suspended(views, done)
}

// forPeople are the reasons of what does not mend itself.
var forPeople = []string{appsapi.ReasonRolloutTimedOut, appsapi.ReasonDataConflict, appsapi.ReasonCredentialsLost, appsapi.ReasonStorageRefused}

// byVerdict are the causes that only say more of what the verdict on a child says, whose
// reason people wait for.
var byVerdict = []explain.Code{explain.RolloutStuck, explain.ResizeStuck}

// broken is the component that something is wrong with; of several the one that the others
// depend on.
func broken(views []view, _ *outcome) (summary, bool) {
	var found *view
	for i := range views {
		v := &views[i]
		if v.degraded() && (found == nil || slices.Contains(found.component.DependsOn, v.component.Name)) {
			found = v
		}
	}
	if found == nil {
		return summary{}, false
	}
	s := summary{status: metav1.ConditionFalse, reason: appsapi.ReasonComponentDegraded, message: found.trouble()}
	if len(found.causes) == 0 || slices.Contains(byVerdict, found.causes[0].Code) {
		s.reason = found.verdict.Reason
	}
	// A job that failed does not try again by itself.
	s.stalled = slices.Contains(forPeople, found.verdict.Reason) ||
		found.component.Type == appsapi.ComponentJob && found.verdict.Status == health.Degraded
	if len(views) > 1 {
		s.message = fmt.Sprintf("Component %q: %s%s", found.component.Name, s.message, waitersOf(found, views))
	}
	return s, true
}

// waitersOf names the components that wait for another one.
func waitersOf(blocker *view, views []view) string {
	var names []string
	for _, v := range views {
		if slices.Contains(v.step.WaitsFor, blocker.component.Name) {
			names = append(names, fmt.Sprintf("%q", v.component.Name))
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; %s waits for it", names[0])
	}
	return fmt.Sprintf("; %s wait for it", strings.Join(names, ", "))
}

// waiting is the first component that waits for another one.
func waiting(views []view, _ *outcome) (summary, bool) {
	others := byName(views)
	for _, v := range views {
		if v.step.Waits() {
			return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonWaitingForDependency, message: v.waiting(others), waits: true}, true
		}
	}
	return summary{}, false
}

func byName(views []view) map[string]*view {
	out := map[string]*view{}
	for i := range views {
		out[views[i].component.Name] = &views[i]
	}
	return out
}

// unfinished is the first component that is not healthy yet.
func unfinished(views []view, _ *outcome) (summary, bool) {
	for _, v := range views {
		if v.verdict.Status != health.Healthy {
			// Nobody but us notices that a StatefulSet gets nowhere.
			return summary{status: metav1.ConditionFalse, reason: v.verdict.Reason, message: v.verdict.Message, waits: v.component.Data != nil}, true
		}
	}
	return summary{}, false
}

// contested is said for as long as somebody keeps changing a child, whatever the child
// looks like at the moment: it looks different ten times a second.
func contested(views []view, _ *outcome) (summary, bool) {
	for _, v := range views {
		if v.quarrel != "" {
			return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing, message: v.quarrel}, true
		}
	}
	return summary{}, false
}

// failure is what can never work, or the first child, in the order people read them, that
// could not be written. A name that is somebody else's comes first: it needs somebody.
func failure(views []view, done *outcome) (summary, bool) {
	if done.invalid != nil {
		return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonInvalidSpec, message: done.invalid.Error(), stalled: true}, true
	}
	var found summary
	rank := 0
	wanted := map[desired.ID]bool{}
	note := func(id desired.ID) {
		if s, r := failureOf(done.namespace, id, done.errors[id]); r > rank {
			found, rank = s, r
		}
	}
	for _, v := range views {
		for _, child := range v.component.Children {
			wanted[child.ID] = true
			note(child.ID)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(done.errors), compareIDs) {
		if wanted[id] {
			continue
		}
		if note(id); found.reason == appsapi.ReasonApplyFailed {
			found.reason = appsapi.ReasonPruneFailed
		}
	}
	if rank == 0 && done.other != nil {
		return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonApplyFailed, message: done.other.Error(), waits: true}, true
	}
	return found, rank > 0
}

func compareIDs(a, b desired.ID) int {
	return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
}

func failureOf(namespace string, id desired.ID, err error) (s summary, rank int) {
	if err == nil {
		return summary{}, 0
	}
	s = summary{status: metav1.ConditionFalse, message: err.Error(), waits: true}
	var taken *own.NameConflict
	var leaving *own.Leaving
	switch {
	case errors.As(err, &taken):
		s.reason = appsapi.ReasonNameConflict
		return s, 3
	case errors.As(err, &leaving):
		s.reason = appsapi.ReasonProgressing
		return s, 1
	case errors.Is(err, apply.ErrStale):
		s.reason = appsapi.ReasonProgressing
		s.message = fmt.Sprintf("%s %s changes faster than it can be written; it is tried again and again", id.Kind.Kind, id.Name)
		return s, 1
	}
	s.reason = appsapi.ReasonApplyFailed
	var growth growthRefused
	switch {
	case errors.As(err, &growth):
		s.reason = appsapi.ReasonStorageRefused
	case isMissing(err):
		s.reason = appsapi.ReasonCredentialsMissing
	case isLost(err):
		s.reason = appsapi.ReasonCredentialsLost
	}
	var refusal apierrors.APIStatus
	if c, known := refusalOf(namespace, id, err); known {
		s.message = c.Sentence
	} else if errors.As(err, &refusal) && apply.IsRefused(err) {
		s.message = fmt.Sprintf("The API server refused %s %s: %s", id.Kind.Kind, id.Name, refusal.Status().Message)
	}
	return s, 2
}

const changesWait = "Changes of the spec wait until it is no longer suspended"

// suspended is what remains to be said: everything is well, apart from what may be the
// matter with components that nobody may touch.
func suspended(views []view, done *outcome) summary {
	const untouched = "; while suspended nothing is repaired or updated"
	fine := summary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "Everything runs as declared"}
	names := 0
	for _, v := range views {
		if !v.component.Suspended {
			continue
		}
		names++
		s := summary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended}
		switch {
		case v.pending:
			s.message = changesWait
		case len(v.causes) > 0:
			s.message = v.causes[0].Sentence + untouched
		case v.verdict.Status != health.Healthy:
			s.message = v.verdict.Message + untouched
		default:
			continue
		}
		if len(views) > 1 {
			s.message = fmt.Sprintf("Component %q is suspended: %s", v.component.Name, s.message)
		}
		return s
	}
	switch {
	case done.plan.Held:
		return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: changesWait}
	case names == 0:
		return fine
	case names < len(views):
		fine.message = fmt.Sprintf("Everything runs as declared; suspended: %d of %d components", names, len(views))
		return fine
	}
	return summary{status: metav1.ConditionTrue, reason: appsapi.ReasonSuspended, message: "Runs on as it is" + untouched}
}

// applied says whether the API server took everything that was due.
func applied(views []view, done *outcome) summary {
	if done.failed != nil {
		return summary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: "Nothing was written, because the state in the cluster could not be read"}
	}
	if s, ok := failure(views, done); ok {
		return s
	}
	if done.plan.Held || slices.ContainsFunc(views, func(v view) bool { return v.pending }) {
		return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: changesWait}
	}
	return summary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "The API server accepted every object"}
}
