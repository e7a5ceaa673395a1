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
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// summarizeReady sums up, the most important first: what could not be seen, what can never work,
// what could not be written, what does not run, what waits, what is still on its way.
func summarizeReady(states []componentState, res *result) conditionSummary {
	if res.observeErr != nil {
		return conditionSummary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: fmt.Sprintf("The state in the cluster could not be read: %v", res.observeErr), mayStall: true}
	}
	if s, ok := failureSummary(states, res); ok {
		return s
	}
	active := slices.DeleteFunc(slices.Clone(states), func(v componentState) bool { return v.component.Suspended })
	for _, summarize := range []func([]componentState, *result) (conditionSummary, bool){degradedSummary, contendedSummary, waitingSummary, progressingSummary} {
		if s, ok := summarize(active, res); ok {
			return s
		}
	}
	if len(res.plan.PendingRemovals) > 0 {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing, message: res.plan.PendingRemovals[0].Message, mayStall: true}
	}
	return suspendedSummary(states, res)
}

// terminalReasons are the reasons of what does not mend itself.
var terminalReasons = []string{appsapi.ReasonRolloutTimedOut, appsapi.ReasonDataConflict, appsapi.ReasonCredentialsLost, appsapi.ReasonStorageChangeRejected}

// healthRefiningCauses are the causes that only say more of what the verdict on a child says, whose
// reason people wait for.
var healthRefiningCauses = []explain.Code{explain.RolloutStuck, explain.ResizeStuck}

// degradedSummary is the component that something is wrong with; of several the one that the others
// depend on.
func degradedSummary(states []componentState, _ *result) (conditionSummary, bool) {
	var found *componentState
	for i := range states {
		v := &states[i]
		if v.isDegraded() && (found == nil || slices.Contains(found.component.DependsOn, v.component.Name)) {
			found = v
		}
	}
	if found == nil {
		return conditionSummary{}, false
	}
	s := conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonComponentDegraded, message: found.problem()}
	if len(found.causes) == 0 || slices.Contains(healthRefiningCauses, found.causes[0].Code) {
		s.reason = found.health.Reason
	}
	// A job that failed does not try again by itself.
	s.stalled = slices.Contains(terminalReasons, found.health.Reason) ||
		found.component.Type == appsapi.ComponentJob && found.health.Status == health.Degraded
	if len(states) > 1 {
		s.message = fmt.Sprintf("Component %q: %s%s", found.component.Name, s.message, waitersMessage(found, states))
	}
	return s, true
}

// waitersMessage names the components that wait for another one.
func waitersMessage(blocker *componentState, states []componentState) string {
	var names []string
	for _, v := range states {
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

// waitingSummary is the first component that waits for another one.
func waitingSummary(states []componentState, _ *result) (conditionSummary, bool) {
	statesByName := byName(states)
	for _, v := range states {
		if v.step.IsWaiting() {
			return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonWaitingForDependency, message: v.waitingMessage(statesByName), mayStall: true}, true
		}
	}
	return conditionSummary{}, false
}

func byName(states []componentState) map[string]*componentState {
	out := map[string]*componentState{}
	for i := range states {
		out[states[i].component.Name] = &states[i]
	}
	return out
}

// progressingSummary is the first component that is not healthy yet.
func progressingSummary(states []componentState, _ *result) (conditionSummary, bool) {
	for _, v := range states {
		if v.health.Status != health.Healthy {
			// Nobody but us notices that a StatefulSet gets nowhere.
			return conditionSummary{status: metav1.ConditionFalse, reason: v.health.Reason, message: v.health.Message, mayStall: v.component.Data != nil}, true
		}
	}
	return conditionSummary{}, false
}

// contendedSummary is said for as long as somebody keeps changing a child, whatever the child
// looks like at the moment: it looks different ten times a second.
func contendedSummary(states []componentState, _ *result) (conditionSummary, bool) {
	for _, v := range states {
		if v.contention != "" {
			return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing, message: v.contention}, true
		}
	}
	return conditionSummary{}, false
}

// failureSummary is what can never work, or the first child, in the order people read them, that
// could not be written. A name that is somebody else's comes first: it needs somebody.
func failureSummary(states []componentState, res *result) (conditionSummary, bool) {
	if res.specErr != nil {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonInvalidSpec, message: res.specErr.Error(), stalled: true}, true
	}
	var found conditionSummary
	rank := 0
	desiredIDs := map[desired.ID]bool{}
	consider := func(id desired.ID) {
		if s, r := childFailureSummary(res.namespace, id, res.childErrs[id]); r > rank {
			found, rank = s, r
		}
	}
	for _, v := range states {
		for _, child := range v.component.Children {
			desiredIDs[child.ID] = true
			consider(child.ID)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(res.childErrs), compareIDs) {
		if desiredIDs[id] {
			continue
		}
		if consider(id); found.reason == appsapi.ReasonApplyFailed {
			found.reason = appsapi.ReasonPruneFailed
		}
	}
	if rank == 0 && res.objectErr != nil {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonApplyFailed, message: res.objectErr.Error(), mayStall: true}, true
	}
	return found, rank > 0
}

func compareIDs(a, b desired.ID) int {
	return cmp.Or(cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Name, b.Name))
}

func childFailureSummary(namespace string, id desired.ID, err error) (s conditionSummary, rank int) {
	if err == nil {
		return conditionSummary{}, 0
	}
	s = conditionSummary{status: metav1.ConditionFalse, message: err.Error(), mayStall: true}
	var nameConflict *ownership.NameConflict
	var terminating *ownership.Terminating
	switch {
	case errors.As(err, &nameConflict):
		s.reason = appsapi.ReasonNameConflict
		return s, 3
	case errors.As(err, &terminating):
		s.reason = appsapi.ReasonProgressing
		return s, 1
	case errors.Is(err, apply.ErrStale):
		s.reason = appsapi.ReasonProgressing
		s.message = fmt.Sprintf("%s %s changes faster than it can be written; it is tried again and again", id.Kind.Kind, id.Name)
		return s, 1
	}
	s.reason = appsapi.ReasonApplyFailed
	var resizeErr resizeRejectedError
	switch {
	case errors.As(err, &resizeErr):
		s.reason = appsapi.ReasonStorageChangeRejected
	case isMissingSource(err):
		s.reason = appsapi.ReasonCredentialSourceMissing
	case isLostCredential(err):
		s.reason = appsapi.ReasonCredentialsLost
	}
	var apiStatus apierrors.APIStatus
	if c, known := rejectionCause(namespace, id, err); known {
		s.message = c.Message
	} else if errors.As(err, &apiStatus) && apply.IsRejected(err) {
		s.message = fmt.Sprintf("The API server refused %s %s: %s", id.Kind.Kind, id.Name, apiStatus.Status().Message)
	}
	return s, 2
}

const pendingChangesMessage = "Changes of the spec wait until it is no longer suspended"

// suspendedSummary is what remains to be said: everything is well, apart from what may be the
// matter with components that nobody may touch.
func suspendedSummary(states []componentState, res *result) conditionSummary {
	const suspendedSuffix = "; while suspended nothing is repaired or updated"
	ready := conditionSummary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "Everything runs as declared"}
	suspendedCount := 0
	for _, v := range states {
		if !v.component.Suspended {
			continue
		}
		suspendedCount++
		s := conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended}
		switch {
		case v.pendingChanges:
			s.message = pendingChangesMessage
		case len(v.causes) > 0:
			s.message = v.causes[0].Message + suspendedSuffix
		case v.health.Status != health.Healthy:
			s.message = v.health.Message + suspendedSuffix
		default:
			continue
		}
		if len(states) > 1 {
			s.message = fmt.Sprintf("Component %q is suspended: %s", v.component.Name, s.message)
		}
		return s
	}
	switch {
	case res.plan.PruneSuspended:
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: pendingChangesMessage}
	case suspendedCount == 0:
		return ready
	case suspendedCount < len(states):
		ready.message = fmt.Sprintf("Everything runs as declared; suspended: %d of %d components", suspendedCount, len(states))
		return ready
	}
	return conditionSummary{status: metav1.ConditionTrue, reason: appsapi.ReasonSuspended, message: "Runs on as it is" + suspendedSuffix}
}

// summarizeApplied says whether the API server took everything that was due.
func summarizeApplied(states []componentState, res *result) conditionSummary {
	if res.observeErr != nil {
		return conditionSummary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: "Nothing was written, because the state in the cluster could not be read"}
	}
	if s, ok := failureSummary(states, res); ok {
		return s
	}
	if res.plan.PruneSuspended || slices.ContainsFunc(states, func(v componentState) bool { return v.pendingChanges }) {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: pendingChangesMessage}
	}
	return conditionSummary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "The API server accepted every object"}
}
