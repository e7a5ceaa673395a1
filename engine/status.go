package engine

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// view is what was seen of one component.
type view struct {
	component desired.Component
	status    ComponentStatus
	verdict   health.Verdict
	causes    []explain.Cause
	// pending is set when a suspended component is not what the spec says.
	pending bool
	again   time.Time
}

// assess judges one component by its children and its pods.
func assess(c desired.Component, done *outcome, pods []*corev1.Pod, before []appsapi.Cause, now time.Time) view {
	v := view{component: c, status: ComponentStatus{Name: c.Name, Selector: c.Selector(), Endpoints: c.Endpoints}}
	v.verdict = childrenHealth(c, done)
	if d, ok := done.seen[c.Workload].(*appsv1.Deployment); ok {
		v.status.Wanted = 1
		if d.Spec.Replicas != nil {
			v.status.Wanted = *d.Spec.Replicas
		}
		v.status.Replicas, v.status.Ready, v.status.Available = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas
		v.status.Selector = metav1.FormatLabelSelector(d.Spec.Selector)
	}
	v.causes, v.again = explain.Pods(pods, now)
	v.causes = explain.Keep(v.causes, before)
	if c.Suspended {
		v.pending = pending(c, done)
	}
	return v
}

// childrenHealth is the worst of the children.
func childrenHealth(c desired.Component, done *outcome) health.Verdict {
	verdicts := make([]health.Verdict, 0, len(c.Children))
	for _, child := range c.Children {
		obj, ok := done.seen[child.ID]
		if !ok {
			verdicts = append(verdicts, health.Verdict{Status: health.Progressing, Reason: appsapi.ReasonProgressing,
				Message: fmt.Sprintf("%s %s does not exist", child.Kind.Kind, child.Name)})
			continue
		}
		verdicts = append(verdicts, health.Asked(obj, done.asked[child.ID]))
	}
	return health.Worst(verdicts...)
}

// pending says whether a component is not what its spec says.
func pending(c desired.Component, done *outcome) bool {
	for _, child := range c.Children {
		live := done.child(child.ID)
		if live == nil {
			return true
		}
		config, err := child.Render(live.(runtime.Object))
		if err != nil || config.Hash() != live.GetAnnotations()[appsapi.AnnotationApplied] {
			return true
		}
	}
	for _, id := range c.Absent {
		if done.child(id) != nil {
			return true
		}
	}
	return false
}

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
	if done.failed == nil {
		after.Causes = explain.ForStatus(causes)
	}
	ready := ready(views, done)
	set := func(kind string, s summary) {
		conditions.Set(&after.Conditions, metav1.Condition{Type: kind, Status: s.status, Reason: s.reason, Message: s.message, ObservedGeneration: generation}, now)
	}
	set(appsapi.ConditionReady, ready)
	set(appsapi.ConditionApplied, applied(views, done))
	stalled := ready.stalled || ready.waits && overdue(before, ready.reason, views, now)
	reconciling := ready.status != metav1.ConditionTrue && ready.reason != appsapi.ReasonSuspended && !stalled
	for kind, present := range map[string]bool{appsapi.ConditionReconciling: reconciling, appsapi.ConditionStalled: stalled} {
		conditions.SetOrRemove(&after.Conditions, present, metav1.Condition{
			Type: kind, Reason: ready.reason, Message: ready.message, ObservedGeneration: generation}, now)
	}
	return after
}

// ready sums up, the most important first: what could not be seen, what could not be
// written, what does not run, what is still on its way.
func ready(views []view, done *outcome) summary {
	if done.failed != nil {
		return summary{status: metav1.ConditionUnknown, reason: appsapi.ReasonInternalError,
			message: fmt.Sprintf("The state in the cluster could not be read: %v", done.failed), waits: true}
	}
	if s, ok := failure(views, done); ok {
		return s
	}
	for _, v := range views {
		if v.component.Suspended {
			return suspended(v)
		}
	}
	for _, v := range views {
		timedOut := v.verdict.Reason == appsapi.ReasonRolloutTimedOut
		if len(v.causes) > 0 {
			return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonComponentDegraded, message: v.causes[0].Sentence, stalled: timedOut}
		}
		if s, ok := contested(v, done); ok {
			return s
		}
		if v.verdict.Status != health.Healthy {
			return summary{status: metav1.ConditionFalse, reason: v.verdict.Reason, message: v.verdict.Message, stalled: timedOut}
		}
	}
	return summary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "Everything runs as declared"}
}

// contested is said for as long as somebody keeps changing a child, whatever the child
// looks like at the moment: it looks different ten times a second.
func contested(v view, done *outcome) (summary, bool) {
	for _, child := range v.component.Children {
		if done.contested[child.ID] {
			return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonProgressing, message: quarrel(done.namespace, child.ID)}, true
		}
	}
	return summary{}, false
}

// failure is the first child, in the order people read them, that could not be written.
// A name that is somebody else's comes first: it needs somebody.
func failure(views []view, done *outcome) (summary, bool) {
	var found summary
	rank := 0
	for _, v := range views {
		ids := v.component.Absent
		for _, child := range v.component.Children {
			ids = append(ids[:len(ids):len(ids)], child.ID)
		}
		for _, id := range ids {
			if s, r := failureOf(id, done.errors[id]); r > rank {
				found, rank = s, r
			}
		}
	}
	return found, rank > 0
}

func failureOf(id desired.ID, err error) (s summary, rank int) {
	if err == nil {
		return summary{}, 0
	}
	s = summary{status: metav1.ConditionFalse, message: err.Error(), waits: true}
	var taken *apply.NameConflict
	var leaving *apply.Leaving
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
	var refusal apierrors.APIStatus
	if errors.As(err, &refusal) && refused(err) {
		s.message = fmt.Sprintf("The API server refused %s %s: %s", id.Kind.Kind, id.Name, refusal.Status().Message)
	}
	return s, 2
}

func suspended(v view) summary {
	s := summary{status: metav1.ConditionTrue, reason: appsapi.ReasonSuspended,
		message: "Runs on as it is; while suspended nothing is repaired or updated"}
	switch {
	case v.pending:
		s.status, s.message = metav1.ConditionFalse, "Changes of the spec wait until it is no longer suspended"
	case len(v.causes) > 0:
		s.status, s.message = metav1.ConditionFalse, v.causes[0].Sentence+"; while suspended nothing is repaired or updated"
	case v.verdict.Status != health.Healthy:
		s.status, s.message = metav1.ConditionFalse, v.verdict.Message+"; while suspended nothing is repaired or updated"
	}
	return s
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
	for _, v := range views {
		if v.pending {
			return summary{status: metav1.ConditionFalse, reason: appsapi.ReasonSuspended, message: "Changes of the spec wait until it is no longer suspended"}
		}
	}
	return summary{status: metav1.ConditionTrue, reason: appsapi.ReasonReconciled, message: "The API server accepted every object"}
}

// overdue says whether the object has waited for the same thing too long. The clock is
// the time of our own condition; losing it only starts it again.
func overdue(before *appsapi.ApplicationStatus, reason string, views []view, now time.Time) bool {
	if c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionStalled); c != nil {
		return c.Reason == reason
	}
	c := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReconciling)
	return c != nil && now.Sub(c.LastTransitionTime.Time) >= deadline(views)
}

func deadline(views []view) time.Duration {
	var most int32
	for _, v := range views {
		most = max(most, v.component.ProgressDeadlineSeconds)
	}
	return time.Duration(most) * time.Second
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
