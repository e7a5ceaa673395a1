package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/explain"
)

// deletionDeadline is after how long a deletion that waits counts as stalled.
const deletionDeadline = 10 * time.Minute

// conditionSummary is one condition's worth of verdict on the whole object.
type conditionSummary struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// stalled is set when nothing will move by itself.
	stalled bool
	// mayStall is set when it may become stalled by waiting too long.
	mayStall bool
}

// computeStatus is what the object's status must say.
func computeStatus(before *appsapi.ApplicationStatus, generation int64, states []componentState, res *result, now time.Time) *appsapi.ApplicationStatus {
	after := before.DeepCopy()
	after.ObservedGeneration = generation
	var causes []explain.Cause
	for _, v := range states {
		causes = append(causes, v.causes...)
	}
	for _, c := range rejectionCauses(res) {
		c.Since = now
		causes = append(causes, c)
	}
	if res.observeErr == nil {
		after.Causes = explain.ForStatus(explain.PreserveSince(causes, before.Causes))
	}
	readiness := summarizeReady(states, res)
	setCondition(after, appsapi.ConditionReady, readiness, now)
	setCondition(after, appsapi.ConditionApplied, summarizeApplied(states, res), now)
	setProgressConditions(before, after, readiness, progressDeadline(states), now)
	return after
}

// setProgressConditions sets the conditions that are there only while they are True, from what Ready says.
func setProgressConditions(before, after *appsapi.ApplicationStatus, ready conditionSummary, deadline time.Duration, now time.Time) {
	stalled := ready.stalled || ready.mayStall && isOverdue(before, ready.reason, deadline, now)
	reconciling := ready.status != metav1.ConditionTrue && ready.reason != appsapi.ReasonSuspended && !stalled
	for conditionType, present := range map[string]bool{appsapi.ConditionReconciling: reconciling, appsapi.ConditionStalled: stalled} {
		conditions.SetOrRemove(&after.Conditions, present, metav1.Condition{
			Type: conditionType, Reason: ready.reason, Message: ready.message, ObservedGeneration: after.ObservedGeneration}, now)
	}
}

func setCondition(after *appsapi.ApplicationStatus, conditionType string, s conditionSummary, now time.Time) {
	conditions.Set(&after.Conditions, metav1.Condition{
		Type: conditionType, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: after.ObservedGeneration}, now)
}

// computeDeletionStatus is what the status of an object that is being deleted must say.
func computeDeletionStatus(before *appsapi.ApplicationStatus, generation int64, s conditionSummary, now time.Time) *appsapi.ApplicationStatus {
	after := before.DeepCopy()
	after.ObservedGeneration, after.Causes = generation, nil
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling); c != nil && c.Reason != appsapi.ReasonDeleting {
		// The clock of a rollout is not that of the deletion.
		meta.RemoveStatusCondition(&after.Conditions, appsapi.ConditionReconciling)
		before = after.DeepCopy()
	}
	setCondition(after, appsapi.ConditionReady, s, now)
	setProgressConditions(before, after, s, deletionDeadline, now)
	return after
}

// isOverdue says whether the object has waited for the same thing too long. The clock is
// the time of our own condition; losing it only starts it again.
func isOverdue(before *appsapi.ApplicationStatus, reason string, deadline time.Duration, now time.Time) bool {
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionStalled); c != nil {
		return c.Reason == reason
	}
	c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling)
	return c != nil && now.Sub(c.LastTransitionTime.Time) >= deadline
}

// progressDeadline is how long all components may take, one after the other.
func progressDeadline(states []componentState) time.Duration {
	var all time.Duration
	for _, v := range states {
		all += time.Duration(v.component.ProgressDeadlineSeconds) * time.Second
	}
	return all
}

// stallsAt is when an object that waits will have waited too long, if it has not yet.
func stallsAt(after *appsapi.ApplicationStatus, deadline time.Duration, now time.Time) time.Time {
	c := meta.FindStatusCondition(after.Conditions, appsapi.ConditionReconciling)
	if c == nil || !c.LastTransitionTime.Add(deadline).After(now) {
		return time.Time{}
	}
	return c.LastTransitionTime.Add(deadline)
}

// shouldWriteStatus says whether the status of an object is worth a write. While something is on its way
// only transitions are: counts change all the time. When everything is well they rest, and
// what differs then was written by somebody else.
func shouldWriteStatus(app, next Object) bool {
	before, after := app.ApplicationStatus(), next.ApplicationStatus()
	if isTransition(before, after) {
		return true
	}
	if was, ok := app.(Stack); ok && isStackTransition(was.StackStatus(), next.(Stack).StackStatus()) {
		return true
	}
	return meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionReady) && !equality.Semantic.DeepEqual(app, next)
}

// isTransition says whether the difference is worth a write: conditions, generation, or
// which causes there are. What else changed goes along.
func isTransition(before, after *appsapi.ApplicationStatus) bool {
	return before.ObservedGeneration != after.ObservedGeneration ||
		!equality.Semantic.DeepEqual(before.Conditions, after.Conditions) ||
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

// isStackTransition says the same of what kinds with several components show: the health of
// a component, or which revision it is.
func isStackTransition(before, after *appsapi.StackStatus) bool {
	if before.CurrentRevision != after.CurrentRevision || before.HealthyRevision != after.HealthyRevision {
		return true
	}
	if !slices.Equal(before.Retained, after.Retained) {
		return true
	}
	return !slices.EqualFunc(before.Components, after.Components, func(a, b appsapi.ComponentStatus) bool {
		a.Ready, a.Desired = b.Ready, b.Desired
		return a == b
	})
}
