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

// readCondition reads the condition Ready.
func (v *View) readCondition(in Input) {
	c := meta.FindStatusCondition(in.Status.Conditions, appsapi.ConditionReady)
	if c == nil {
		v.Message, v.Since = "The operator has not observed it yet", in.App.GetCreationTimestamp().Time
		return
	}
	current := in.Status.ObservedGeneration == in.App.GetGeneration()
	v.Ready = c.Status == metav1.ConditionTrue && current && !v.Deleting
	v.Reason, v.Message, v.Since = c.Reason, c.Message, c.LastTransitionTime.Time
	if v.Deleting {
		v.Since = in.App.GetDeletionTimestamp().Time
	}
	if !current {
		v.Reason, v.Message = appsapi.ReasonProgressing, "The operator has not observed the latest change yet"
	}
}

// evaluateHealth evaluates the application as a whole and adds causes that only the operator knows.
func (v *View) evaluateHealth(in Input, unobserved bool) {
	verdicts := make([]health.Result, 0, len(v.Components))
	for _, c := range v.Components {
		verdicts = append(verdicts, health.Result{Status: rollupHealth(c.Health)})
	}
	v.Health = health.Worst(verdicts...).Status
	switch {
	case v.Deleting:
		v.Health = health.Progressing
		v.addStuckDeletion(in)
	case unobserved:
	case v.Ready:
		v.addSuspended(in)
	default:
		v.addSuspended(in)
		v.addReportedCauses(in)
		v.addReasonCause(in)
	}
	if !v.Ready && v.Health == health.Healthy {
		v.Health = health.Progressing // the operator has not reported it as ready yet
	}
}

// addUnobserved adds a cause if the operator did not observe a change in time.
func (v *View) addUnobserved(in Input) bool {
	o := appRef(in)
	c, recheckAt := explain.UnobservedCause(o, in.App, in.Status.ObservedGeneration, in.Now)
	v.scheduleRecheck(recheckAt)
	if c.Code == "" {
		return false
	}
	c.Message = fmt.Sprintf("The operator has not observed the latest change of %s", o)
	c.Fix = "Check that the operator is running: kubectl holdfast doctor"
	if neverObserved(in) {
		c.Message = fmt.Sprintf("No operator manages %s: none is running, or none watches namespace %s", o, o.Namespace)
		c.Fix = fmt.Sprintf("Check the operator and its namespaces: kubectl holdfast doctor -n %s", o.Namespace)
	}
	v.Causes = append(v.Causes, c)
	return true
}

// addReportedCauses adds the causes from the status that only the operator knows: rejected writes, field
// conflicts, and causes in objects that the reader has no permission to read. All other causes are
// found here with newer data.
func (v *View) addReportedCauses(in Input) {
	for _, c := range in.Status.Causes {
		code := explain.Code(c.Code)
		known := slices.ContainsFunc(v.Components, func(x Component) bool { return x.hasCause(code, c.Object.Kind, c.Object.Name) })
		if known || slices.Contains(in.CompleteKinds, c.Object.Kind) && !slices.Contains(operatorOnlyCodes, code) {
			continue
		}
		v.Health = health.Degraded
		v.Causes = append(v.Causes, v.reportedCause(c))
	}
}

// operatorOnlyCodes are causes that only the writer of an object sees.
var operatorOnlyCodes = []explain.Code{
	explain.FieldConflict, explain.QuotaExceeded, explain.QuotaNeedsRequests, explain.LimitRange, explain.PodSecurity,
	explain.WebhookDenied, explain.WebhookDown, explain.PolicyDenied, explain.NamespaceTerminating, explain.CreateFailed,
}

// Reasons that add nothing to the state of the components: transient ones, and those whose causes are
// found here.
var (
	transientReasons = []string{
		appsapi.ReasonReconciled, appsapi.ReasonProgressing, appsapi.ReasonWaitingForDependency, appsapi.ReasonSuspended,
		appsapi.ReasonStorageResizing, appsapi.ReasonDatabaseStarting, appsapi.ReasonDeleting,
	}
	explainedReasons = []string{appsapi.ReasonComponentDegraded, appsapi.ReasonRolloutTimedOut, appsapi.ReasonApplyFailed}
)

// addReasonCause adds the reason of the condition as a cause if no cause explains it, for example
// conflicting data or an invalid spec.
func (v *View) addReasonCause(in Input) {
	if slices.ContainsFunc(v.Components, func(c Component) bool {
		return slices.ContainsFunc(c.Causes, func(x explain.Cause) bool { return string(x.Code) == v.Reason })
	}) {
		return
	}
	broken := len(v.Causes) > 0 || slices.ContainsFunc(v.Components, func(c Component) bool { return c.topError() != nil })
	if v.Reason == "" || slices.Contains(transientReasons, v.Reason) || broken && slices.Contains(explainedReasons, v.Reason) {
		return
	}
	v.Health = health.Degraded
	if !slices.ContainsFunc(v.Components, func(c Component) bool { return c.hasCode(explain.Code(v.Reason)) }) {
		v.Causes = append(v.Causes, v.reasonCause(in, v.Reason, v.Message))
	}
}

// addStuckDeletion adds a cause if the deletion waits for finalizers of other controllers after the
// operator has removed its own.
func (v *View) addStuckDeletion(in Input) {
	var otherFinalizers []string
	for _, f := range in.App.GetFinalizers() {
		if f != in.Owner.Keys.Finalizer {
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
	v.Causes = append(v.Causes, explain.TerminatingCause(appRef(in), since, otherFinalizers))
}

// finalizerGrace is how long the owner of a finalizer can take before it is reported.
const finalizerGrace = 30 * time.Second

// rollupHealth maps the health of a component to that of the application: waiting counts as progressing.
func rollupHealth(s health.Status) health.Status {
	if s == Waiting {
		return health.Progressing
	}
	return s
}
