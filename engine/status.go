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

// summary is one condition's worth of verdict on the whole object.
type summary struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// stalled is set when nothing will move by itself.
	stalled bool
	// waits is set when it may become stalled by waiting too long.
	waits bool
}

// status is what the object's status must say.
func status(before *appsapi.ApplicationStatus, generation int64, views []view, done *outcome, now time.Time) *appsapi.ApplicationStatus {
	after := before.DeepCopy()
	after.ObservedGeneration = generation
	var causes []explain.Cause
	for _, v := range views {
		causes = append(causes, v.causes...)
	}
	for _, c := range refusals(done) {
		c.Since = now
		causes = append(causes, c)
	}
	if done.failed == nil {
		after.Causes = explain.ForStatus(explain.Keep(causes, before.Causes))
	}
	verdict := ready(views, done)
	set(after, appsapi.ConditionReady, verdict, now)
	set(after, appsapi.ConditionApplied, applied(views, done), now)
	say(before, after, verdict, deadline(views), now)
	return after
}

// say sets the conditions that are there only while they are True, from what Ready says.
func say(before, after *appsapi.ApplicationStatus, ready summary, deadline time.Duration, now time.Time) {
	stalled := ready.stalled || ready.waits && overdue(before, ready.reason, deadline, now)
	reconciling := ready.status != metav1.ConditionTrue && ready.reason != appsapi.ReasonSuspended && !stalled
	for kind, present := range map[string]bool{appsapi.ConditionReconciling: reconciling, appsapi.ConditionStalled: stalled} {
		conditions.SetOrRemove(&after.Conditions, present, metav1.Condition{
			Type: kind, Reason: ready.reason, Message: ready.message, ObservedGeneration: after.ObservedGeneration}, now)
	}
}

func set(after *appsapi.ApplicationStatus, kind string, s summary, now time.Time) {
	conditions.Set(&after.Conditions, metav1.Condition{
		Type: kind, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: after.ObservedGeneration}, now)
}

// deletionStatus is what the status of an object that is being deleted must say.
func deletionStatus(before *appsapi.ApplicationStatus, generation int64, s summary, now time.Time) *appsapi.ApplicationStatus {
	after := before.DeepCopy()
	after.ObservedGeneration, after.Causes = generation, nil
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling); c != nil && c.Reason != appsapi.ReasonDeleting {
		// The clock of a rollout is not that of the deletion.
		meta.RemoveStatusCondition(&after.Conditions, appsapi.ConditionReconciling)
		before = after.DeepCopy()
	}
	set(after, appsapi.ConditionReady, s, now)
	say(before, after, s, deletionDeadline, now)
	return after
}

// overdue says whether the object has waited for the same thing too long. The clock is
// the time of our own condition; losing it only starts it again.
func overdue(before *appsapi.ApplicationStatus, reason string, deadline time.Duration, now time.Time) bool {
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionStalled); c != nil {
		return c.Reason == reason
	}
	c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling)
	return c != nil && now.Sub(c.LastTransitionTime.Time) >= deadline
}

// deadline is how long all components may take, one after the other.
func deadline(views []view) time.Duration {
	var all time.Duration
	for _, v := range views {
		all += time.Duration(v.component.ProgressDeadlineSeconds) * time.Second
	}
	return all
}

// again is when an object that waits will have waited too long, if it has not yet.
func again(after *appsapi.ApplicationStatus, deadline time.Duration, now time.Time) time.Time {
	c := meta.FindStatusCondition(after.Conditions, appsapi.ConditionReconciling)
	if c == nil || !c.LastTransitionTime.Add(deadline).After(now) {
		return time.Time{}
	}
	return c.LastTransitionTime.Add(deadline)
}

// news says whether the status of an object is worth a write. While something is on its way
// only transitions are: counts change all the time. When everything is well they rest, and
// what differs then was written by somebody else.
func news(app, next Object) bool {
	before, after := app.ApplicationStatus(), next.ApplicationStatus()
	if transition(before, after) {
		return true
	}
	if was, ok := app.(Stack); ok && stackTransition(was.StackStatus(), next.(Stack).StackStatus()) {
		return true
	}
	return meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionReady) && !equality.Semantic.DeepEqual(app, next)
}

// transition says whether the difference is worth a write: conditions, generation, or
// which causes there are. What else changed goes along.
func transition(before, after *appsapi.ApplicationStatus) bool {
	return before.ObservedGeneration != after.ObservedGeneration ||
		!equality.Semantic.DeepEqual(before.Conditions, after.Conditions) ||
		!sameCodes(before.Causes, after.Causes)
}

func sameCodes(a, b []appsapi.Cause) bool {
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

// stackTransition says the same of what kinds with several components show: the health of
// a component, or which revision it is.
func stackTransition(before, after *appsapi.StackStatus) bool {
	if before.CurrentRevision != after.CurrentRevision || before.HealthyRevision != after.HealthyRevision {
		return true
	}
	if !slices.Equal(before.Retained, after.Retained) {
		return true
	}
	return !slices.EqualFunc(before.Components, after.Components, func(a, b appsapi.ComponentStatus) bool {
		a.Ready, a.Wanted = b.Ready, b.Wanted
		return a == b
	})
}
