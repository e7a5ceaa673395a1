package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// deletionDeadline is the time after which a pending deletion counts as stalled.
const deletionDeadline = 10 * time.Minute

// conditionSummary is the content of one condition of the application.
type conditionSummary struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// stalled is set if a user must act.
	stalled bool
	// mayStall is set if the condition becomes stalled after a deadline.
	mayStall bool
}

// computeStatus returns the status of an application.
func computeStatus(before *appsapi.ApplicationStatus, generation int64, states []componentState,
	scope *execute.Scope, now time.Time) *appsapi.ApplicationStatus {
	after := before.DeepCopy()
	after.ObservedGeneration = generation
	var causes []explain.Cause
	for _, v := range states {
		causes = append(causes, v.causes...)
	}
	for _, c := range rejectionCauses(scope) {
		c.Since = now
		causes = append(causes, c)
	}
	if scope.ObserveErr == nil {
		after.Causes = explain.ForStatus(explain.PreserveSince(causes, before.Causes))
	}
	readiness := summarizeReady(states, scope)
	setCondition(after, appsapi.ConditionReady, readiness, now)
	setCondition(after, appsapi.ConditionApplied, summarizeApplied(states, scope), now)
	setProgressConditions(before, after, readiness, progressDeadline(states), now)
	return after
}

// setProgressConditions sets or removes Reconciling and Stalled, which exist only while they are True.
func setProgressConditions(before, after *appsapi.ApplicationStatus, ready conditionSummary, deadline time.Duration, now time.Time) {
	stalled := ready.stalled || ready.mayStall && isOverdue(before, ready.reason, deadline, now)
	reconciling := ready.status != metav1.ConditionTrue && ready.reason != appsapi.ReasonSuspended && !stalled
	for conditionType, present := range map[string]bool{
		appsapi.ConditionReconciling: reconciling, appsapi.ConditionStalled: stalled,
	} {
		conditions.SetOrRemove(&after.Conditions, present, metav1.Condition{
			Type: conditionType, Reason: ready.reason, Message: ready.message, ObservedGeneration: after.ObservedGeneration}, now)
	}
}

func setCondition(after *appsapi.ApplicationStatus, conditionType string, s conditionSummary, now time.Time) {
	conditions.Set(&after.Conditions, metav1.Condition{
		Type: conditionType, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: after.ObservedGeneration}, now)
}

// computeDeletionStatus returns the status of an application that is being deleted.
func computeDeletionStatus(before *appsapi.ApplicationStatus, generation int64, s conditionSummary,
	now time.Time) *appsapi.ApplicationStatus {
	after := before.DeepCopy()
	after.ObservedGeneration, after.Causes = generation, nil
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling); c != nil && c.Reason != appsapi.ReasonDeleting {
		// The deadline of the deletion starts now, not when an earlier rollout started.
		meta.RemoveStatusCondition(&after.Conditions, appsapi.ConditionReconciling)
		before = after.DeepCopy()
	}
	setCondition(after, appsapi.ConditionReady, s, now)
	setProgressConditions(before, after, s, deletionDeadline, now)
	return after
}

// isOverdue reports whether the application has exceeded its deadline. The deadline counts from the
// transition time of Reconciling, so it starts again if another client removes that condition.
func isOverdue(before *appsapi.ApplicationStatus, reason string, deadline time.Duration, now time.Time) bool {
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionStalled); c != nil {
		return c.Reason == reason
	}
	c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling)
	return c != nil && now.Sub(c.LastTransitionTime.Time) >= deadline
}

// progressDeadline is the sum of the deadlines of all components, which may roll out one by one.
func progressDeadline(states []componentState) time.Duration {
	var all time.Duration
	for _, v := range states {
		all += time.Duration(v.component.ProgressDeadlineSeconds) * time.Second
	}
	return all
}

// stallsAt returns when the deadline ends; zero if no deadline is running or the deadline has
// passed.
func stallsAt(after *appsapi.ApplicationStatus, deadline time.Duration, now time.Time) time.Time {
	c := meta.FindStatusCondition(after.Conditions, appsapi.ConditionReconciling)
	if c == nil || !c.LastTransitionTime.Add(deadline).After(now) {
		return time.Time{}
	}
	return c.LastTransitionTime.Add(deadline)
}

// shouldWriteStatus reports whether the status must be written. During a rollout only transitions
// are written, because replica counts change all the time. The status of a ready application is
// written for any difference: counts are stable, and another client may have changed the status.
func shouldWriteStatus(app, next execute.Application) bool {
	before, after := app.ApplicationStatus(), next.ApplicationStatus()
	if isTransition(before, after) {
		return true
	}
	if was, ok := app.(Stack); ok && isStackTransition(was.StackStatus(), next.(Stack).StackStatus()) {
		return true
	}
	return meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionReady) && !equality.Semantic.DeepEqual(app, next)
}

// isTransition reports whether the generation, a condition, the drift history or the set of cause codes changed.
func isTransition(before, after *appsapi.ApplicationStatus) bool {
	return before.ObservedGeneration != after.ObservedGeneration ||
		!equality.Semantic.DeepEqual(before.Conditions, after.Conditions) ||
		!equality.Semantic.DeepEqual(before.Drift, after.Drift) ||
		!sameCauseCodes(before.Causes, after.Causes)
}

func sameCauseCodes(a, b []appsapi.Cause) bool {
	codes := map[string]bool{}
	for _, c := range a {
		codes[c.Code] = true
	}
	other := map[string]bool{}
	for _, c := range b {
		other[c.Code] = true
	}
	return equality.Semantic.DeepEqual(codes, other)
}

// isStackTransition reports whether the revisions, the retained data or the components of a stack
// changed, except for counts.
func isStackTransition(before, after *appsapi.StackStatus) bool {
	if before.CurrentRevision != after.CurrentRevision || before.HealthyRevision != after.HealthyRevision {
		return true
	}
	if !slices.Equal(before.Retained, after.Retained) {
		return true
	}
	return !slices.EqualFunc(before.Components, after.Components, func(a, b appsapi.ComponentStatus) bool {
		a.Ready, a.Desired, a.DependsOn = b.Ready, b.Desired, b.DependsOn
		return equality.Semantic.DeepEqual(a, b)
	})
}
