package inspect

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// readCondition reads what the operator says.
func (v *View) readCondition(in Input) {
	c := meta.FindStatusCondition(in.Status.Conditions, appsapi.ConditionReady)
	if c == nil {
		v.Message, v.Since = "The operator has not looked at it yet", in.App.GetCreationTimestamp().Time
		return
	}
	current := in.Status.ObservedGeneration == in.App.GetGeneration()
	v.Ready = c.Status == metav1.ConditionTrue && current && !v.Deleting
	v.Reason, v.Message, v.Since = c.Reason, c.Message, c.LastTransitionTime.Time
	if v.Deleting {
		v.Since = in.App.GetDeletionTimestamp().Time
	}
	if !current {
		v.Reason, v.Message = appsapi.ReasonProgressing, "The operator has not looked at the latest change yet"
	}
}

// evaluateHealth judges the application as a whole, and adds what only the operator knows.
func (v *View) evaluateHealth(in Input) {
	verdicts := make([]health.Result, 0, len(v.Components))
	for _, c := range v.Components {
		verdicts = append(verdicts, health.Result{Status: rollupHealth(c.Health)})
	}
	v.Health = health.Worst(verdicts...).Status
	unobserved := v.addUnobserved(in)
	switch {
	case v.Deleting:
		v.Health = health.Progressing
		v.addStuckDeletion(in)
	case v.Ready || unobserved:
	default:
		v.addReportedCauses(in)
		v.addReasonCause(in)
	}
	if !v.Ready && v.Health == health.Healthy {
		v.Health = health.Progressing // somebody has yet to say that all is well
	}
}

// addUnobserved is a change that the operator has not looked at for too long.
func (v *View) addUnobserved(in Input) bool {
	o := v.appRef(in)
	c, recheckAt := explain.UnobservedCause(o, in.App, in.Status.ObservedGeneration, in.Now)
	v.scheduleRecheck(recheckAt)
	if c.Code == "" {
		return false
	}
	c.Message = fmt.Sprintf("The operator has not looked at the latest change of %s", o)
	c.Fix = "See whether the operator runs: kubectl holdfast doctor"
	v.Causes = append(v.Causes, c)
	return true
}

// addReportedCauses adds the causes that the operator alone knows: who refuses its writes, who undoes
// them, and what it sees where the reader may not look. What else it says is seen here, and
// newer.
func (v *View) addReportedCauses(in Input) {
	for _, c := range in.Status.Causes {
		code := explain.Code(c.Code)
		known := slices.ContainsFunc(v.Components, func(x Component) bool { return x.hasCause(code, c.Object.Kind, c.Object.Name) })
		if known || slices.Contains(in.CompleteKinds, c.Object.Kind) && !slices.Contains(operatorOnlyCodes, code) {
			continue
		}
		v.Health = health.Degraded
		v.Causes = append(v.Causes, explain.Cause{
			Code: code, Object: explain.ObjectRef{Kind: c.Object.Kind, Namespace: v.Namespace, Name: c.Object.Name},
			Since: c.Since.Time, Message: c.Message,
		})
	}
}

// operatorOnlyCodes are causes that only who writes an object meets.
var operatorOnlyCodes = []explain.Code{
	explain.FieldConflict, explain.QuotaExceeded, explain.QuotaNeedsRequests, explain.LimitRange, explain.PodSecurity,
	explain.WebhookDenied, explain.WebhookDown, explain.PolicyDenied, explain.NamespaceTerminating, explain.CreateFailed,
}

// Reasons that say nothing beyond what is seen of the components: those that pass, and those
// whose causes are found here, too.
var (
	transientReasons = []string{
		appsapi.ReasonReconciled, appsapi.ReasonProgressing, appsapi.ReasonWaitingForDependency, appsapi.ReasonSuspended,
		appsapi.ReasonStorageResizing, appsapi.ReasonDatabaseStarting, appsapi.ReasonDeleting,
	}
	explainedReasons = []string{appsapi.ReasonComponentDegraded, appsapi.ReasonRolloutTimedOut, appsapi.ReasonApplyFailed}
)

// addReasonCause adds what no cause says: a name that is somebody else's, data that is in the way, a
// spec that can never work.
func (v *View) addReasonCause(in Input) {
	broken := len(v.Causes) > 0 || slices.ContainsFunc(v.Components, func(c Component) bool { return c.topError() != nil })
	if v.Reason == "" || slices.Contains(transientReasons, v.Reason) || broken && slices.Contains(explainedReasons, v.Reason) {
		return
	}
	v.Health = health.Degraded
	v.Causes = append(v.Causes, explain.Cause{
		Code: explain.Code(v.Reason), Object: v.appRef(in), Path: `status.conditions[?(@.type=="Ready")]`, Value: v.Reason, Since: v.Since,
		Message: v.Message, Fix: "Do what the sentence says; the operator goes on by itself.",
	})
}

// addStuckDeletion is an application on its way out: whom its deletion waits for once the operator
// has done its part.
func (v *View) addStuckDeletion(in Input) {
	var otherFinalizers []string
	for _, f := range in.App.GetFinalizers() {
		if f != appsapi.FinalizerOrderedDeletion {
			otherFinalizers = append(otherFinalizers, f)
		}
	}
	since := in.App.GetDeletionTimestamp().Time
	if len(otherFinalizers) == 0 || len(otherFinalizers) < len(in.App.GetFinalizers()) {
		return
	}
	if end := since.Add(finalizerGrace); in.Now.Before(end) {
		v.scheduleRecheck(end)
		return
	}
	v.Causes = append(v.Causes, explain.TerminatingCause(v.appRef(in), since, otherFinalizers))
}

// finalizerGrace is how long the owner of a finalizer may take.
const finalizerGrace = 30 * time.Second

// rollupHealth is the health of a component for the whole: one that waits is on its way.
func rollupHealth(s health.Status) health.Status {
	if s == Waiting {
		return health.Progressing
	}
	return s
}
