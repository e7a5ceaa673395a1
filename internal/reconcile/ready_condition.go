package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// summarizeReady computes the Ready condition. The most important problem wins: failed reads, invalid
// specs, failed writes, degraded components, waiting components, components that are rolling out.
func summarizeReady(states []componentState, scope *execute.Scope) conditionSummary {
	if scope.ObserveErr != nil {
		return conditionSummary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: fmt.Sprintf("Cannot read the cluster state: %v", scope.ObserveErr), mayStall: true}
	}
	if s, ok := failureSummary(states, scope); ok {
		return s
	}
	active := slices.DeleteFunc(slices.Clone(states), func(v componentState) bool { return v.component.Suspended })
	for _, summarize := range []func([]componentState, *execute.Scope) (conditionSummary, bool){
		degradedSummary, contendedSummary, waitingSummary, progressingSummary,
	} {
		if s, ok := summarize(active, scope); ok {
			return s
		}
	}
	if len(scope.Plan.PendingRemovals) > 0 {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing,
			message: scope.Plan.PendingRemovals[0].Message, mayStall: true}
	}
	return suspendedSummary(states, scope)
}

// terminalReasons are the reasons of problems that need a user to act.
var terminalReasons = []string{
	appsapi.ReasonRolloutTimedOut, appsapi.ReasonDataConflict, appsapi.ReasonCredentialsLost, appsapi.ReasonStorageChangeRejected,
}

// healthRefiningCauses only add detail to the health of a child. The condition keeps the reason of
// the health, because scripts wait for that reason.
var healthRefiningCauses = []explain.Code{explain.RolloutStuck, explain.ResizeStuck}

// degradedSummary reports a degraded component. If several components are degraded, it prefers a
// dependency to its dependents.
func degradedSummary(states []componentState, _ *execute.Scope) (conditionSummary, bool) {
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
	// A failed job is not retried.
	s.stalled = slices.Contains(terminalReasons, found.health.Reason) ||
		found.component.Type == appsapi.ComponentJob && found.health.Status == health.Degraded
	if len(states) > 1 {
		s.message = fmt.Sprintf("Component %q: %s%s", found.component.Name, s.message, waitersMessage(found, states))
	}
	return s, true
}

// waitersMessage names the components that wait for blocker.
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

// waitingSummary reports the first component that waits for a dependency.
func waitingSummary(states []componentState, _ *execute.Scope) (conditionSummary, bool) {
	statesByName := statesByComponent(states)
	for _, v := range states {
		if v.step.IsWaiting() {
			return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonWaitingForDependency,
				message: v.waitingMessage(statesByName), mayStall: true}, true
		}
	}
	return conditionSummary{}, false
}

func statesByComponent(states []componentState) map[string]*componentState {
	out := map[string]*componentState{}
	for i := range states {
		out[states[i].component.Name] = &states[i]
	}
	return out
}

// progressingSummary reports the first component that is not healthy yet.
func progressingSummary(states []componentState, _ *execute.Scope) (conditionSummary, bool) {
	for _, v := range states {
		if v.health.Status != health.Healthy {
			// Kubernetes has no progress deadline for StatefulSets.
			return conditionSummary{status: metav1.ConditionFalse, reason: v.health.Reason,
				message: v.health.Message, mayStall: v.component.Data != nil}, true
		}
	}
	return conditionSummary{}, false
}

// contendedSummary reports a child that another client keeps changing. It ignores the current state
// of the child, which can change many times per second.
func contendedSummary(states []componentState, _ *execute.Scope) (conditionSummary, bool) {
	for _, v := range states {
		if v.contention != "" {
			return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing, message: v.contention}, true
		}
	}
	return conditionSummary{}, false
}

// failureSummary reports an invalid spec, or the first child, in spec order, that could not be
// written. Conflicts come first: a user must resolve them.
func failureSummary(states []componentState, scope *execute.Scope) (conditionSummary, bool) {
	if scope.SpecErr != nil {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonInvalidSpec, message: scope.SpecErr.Error(), stalled: true}, true
	}
	var found conditionSummary
	rank := 0
	var unmanaged []*ownership.NameConflict
	desiredIDs := map[desired.ID]bool{}
	consider := func(id desired.ID) {
		if f := newChildFailure(scope.Owner.Namespace, id, scope.ChildErrs[id]); f.rank > rank {
			found = conditionSummary{status: metav1.ConditionFalse, reason: f.reason, message: f.message, mayStall: true}
			rank = f.rank
		}
		var conflict *ownership.NameConflict
		if errors.As(scope.ChildErrs[id], &conflict) && conflict.Unmanaged {
			unmanaged = append(unmanaged, conflict)
		}
	}
	for _, v := range states {
		for _, child := range v.component.Children {
			desiredIDs[child.ID] = true
			consider(child.ID)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(scope.ChildErrs), compareIDs) {
		if desiredIDs[id] {
			continue
		}
		if consider(id); found.reason == appsapi.ReasonApplyFailed {
			found.reason = appsapi.ReasonPruneFailed
		}
	}
	if rank == 0 && scope.ObjectErr != nil {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonApplyFailed,
			message: scope.ObjectErr.Error(), mayStall: true}, true
	}
	if len(unmanaged) > 1 && found.message == unmanaged[0].Error() {
		found.message = ownership.UnmanagedMessage(scope.Owner, unmanaged) // one command for all of them
	}
	return found, rank > 0
}

const pendingChangesMessage = "Spec changes are pending; resume to apply them"

// suspendedSummary is used if no other summary applies: all active components are ready, and only
// suspended components can have problems or pending changes.
func suspendedSummary(states []componentState, scope *execute.Scope) conditionSummary {
	const suspendedSuffix = "; while suspended, drift is not corrected and updates are not applied"
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
	case scope.Plan.PruneSuspended:
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: pendingChangesMessage}
	case suspendedCount == 0:
		return ready
	case suspendedCount < len(states):
		ready.message = fmt.Sprintf("Everything runs as declared; suspended: %d of %d components", suspendedCount, len(states))
		return ready
	}
	return conditionSummary{status: metav1.ConditionTrue, reason: appsapi.ReasonSuspended,
		message: "Suspended: running unchanged; drift is not corrected and updates are not applied"}
}

// summarizeApplied computes the Applied condition: whether the API server accepted every object.
func summarizeApplied(states []componentState, scope *execute.Scope) conditionSummary {
	if scope.ObserveErr != nil {
		return conditionSummary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: "No changes were written because the cluster state could not be read"}
	}
	if s, ok := failureSummary(states, scope); ok {
		return s
	}
	if scope.Plan.PruneSuspended || slices.ContainsFunc(states, func(v componentState) bool { return v.pendingChanges }) {
		return conditionSummary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: pendingChangesMessage}
	}
	return conditionSummary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "The API server accepted every object"}
}
