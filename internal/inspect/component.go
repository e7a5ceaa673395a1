package inspect

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// evaluateComponent evaluates one component. failures are the failed writes of children.
func (v *View) evaluateComponent(in Input, index *appIndex, c desired.Component, failures []explain.Cause) Component {
	var diagnosis explain.Diagnosis
	if v.Deleting { // only stuck pods matter during deletion
		diagnosis = index.stuckPods(in, c)
	} else {
		diagnosis = explain.Explain(index.snapshot(in, c), in.Now)
	}
	v.EventsNeeded = append(v.EventsNeeded, diagnosis.EventsNeeded...)
	v.scheduleRecheck(diagnosis.RecheckAt)
	result := Component{
		Name: c.Name, Type: c.Type, Suspended: c.Suspended, DependsOn: c.DependsOn, Workload: c.Workload,
		Causes: explain.PreserveSince(diagnosis.Causes, in.Status.Causes),
	}
	verdict, failed := index.childrenVerdict(in, c, v.notCreated(in), failures)
	result.Causes = append(failed, result.Causes...)
	result.Tree = index.buildTree(in, c)
	annotateCauses(result.Tree, result.Causes)
	result.Ready, result.Desired = replicaCounts(index.children[c.Workload])
	if c.Type == appsapi.ComponentDatabase && !v.Deleting {
		reported := reportedDatabaseHealth(in, c)
		verdict = health.Worst(verdict, reported)
		if verdict.Status == health.Healthy { // only the operator knows whether a rotation is in progress
			verdict = reported
		}
	}
	result.Health, result.Message = verdict.Status, verdict.Message
	switch top := result.topError(); {
	case top != nil:
		result.Health, result.Message = health.Degraded, top.Message
	case verdict.Reason == appsapi.ReasonInvalidSpec:
		result.Health = Waiting
	case c.Suspended && result.Health == health.Healthy:
		result.Health, result.Message = health.Suspended, health.SuspendedMessage
	case c.Suspended && !v.Deleting:
		result.Message = strings.TrimSuffix(result.Message, health.SuspendedSuffix) + health.SuspendedSuffix // reported databases have it
	case result.Health == health.Healthy && verdict.Reason != appsapi.ReasonRotating: // a rotation may wait for a client
		result.Message = explain.Warning(result.Causes)
	}
	return result
}

// reportedDatabaseHealth returns the health of a database from the status: only the operator connects to
// databases.
func reportedDatabaseHealth(in Input, c desired.Component) health.Result {
	if in.Stack != nil {
		for _, s := range in.Stack.Components {
			if s.Name == c.Name && s.Health != "" {
				return health.Result{Status: health.Status(s.Health), Reason: s.Reason, Message: s.Message}
			}
		}
	}
	return health.Result{Status: health.Healthy}
}

// childrenVerdict returns the health of the worst child, and the failed writes of children that do not
// exist. If notCreated is set, the operator did not apply the spec: its new children are ignored.
func (ix *appIndex) childrenVerdict(in Input, c desired.Component, notCreated *health.Result, failures []explain.Cause) (health.Result, []explain.Cause) {
	deleting := in.App.GetDeletionTimestamp() != nil
	if notCreated != nil && !deleting && ix.children[c.Workload] == nil && ix.wasRead(c.Workload.Kind) {
		return *notCreated, nil
	}
	var verdicts []health.Result
	var failed []explain.Cause
	for _, child := range c.Children {
		failure := failureOf(in, child.ID, failures)
		switch obj := ix.children[child.ID]; {
		case obj != nil:
			verdicts = append(verdicts, health.Evaluate(obj))
		case !ix.wasRead(child.Kind):
			if !isPassiveKind(child.Kind) {
				verdicts = append(verdicts, health.Result{Status: health.Unknown,
					Message: fmt.Sprintf("%s %s was not checked", child.Kind.Kind, child.Name)})
			}
		case deleting, notCreated != nil:
		case failure != nil:
			failed = append(failed, *failure)
			verdicts = append(verdicts, health.Result{Status: health.Degraded, Message: failure.Message})
		default:
			verdicts = append(verdicts, health.Missing(child.Kind.Kind, child.Name))
		}
	}
	if deleting {
		return ix.deletionVerdict(in, c, verdicts), nil
	}
	return health.Worst(verdicts...), failed
}

// deletionVerdict returns the health of a component that is being deleted.
func (ix *appIndex) deletionVerdict(in Input, c desired.Component, verdicts []health.Result) health.Result {
	pods := ix.pods(in, c)
	switch last := health.LastTerminating(pods); {
	case last != nil:
		return health.Result{Status: health.Progressing, Message: health.TerminatingMessage(last)}
	case len(verdicts) > 0:
		return health.Worst(verdicts...)
	case len(pods) > 0:
		return health.Result{Status: health.Progressing, Message: "its pods still exist"}
	}
	return health.Result{Status: health.Progressing, Message: "all its objects are deleted"}
}

// pods returns the pods of a component.
func (ix *appIndex) pods(in Input, c desired.Component) []*corev1.Pod {
	var out []*corev1.Pod
	for _, obj := range ix.componentObjects(in, c) {
		if pod, ok := obj.(*corev1.Pod); ok {
			out = append(out, pod)
		}
	}
	return out
}

// stuckPods returns a cause for each pod of a component whose deletion waits for finalizers.
func (ix *appIndex) stuckPods(in Input, c desired.Component) (out explain.Diagnosis) {
	for _, pod := range ix.pods(in, c) {
		if pod.DeletionTimestamp == nil || len(pod.Finalizers) == 0 {
			continue
		}
		if end := pod.DeletionTimestamp.Add(finalizerGrace); in.Now.Before(end) {
			out.RecheckAt = end
			continue
		}
		o := explain.ObjectRef{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		out.Causes = append(out.Causes, explain.TerminatingCause(o, pod.DeletionTimestamp.Time, pod.Finalizers))
	}
	return out
}

// isPassiveKind reports whether objects of a kind are healthy if they exist. The operator ensures that
// they do, so they need not be read.
func isPassiveKind(kind schema.GroupVersionKind) bool {
	return slices.Contains([]schema.GroupVersionKind{desired.KindConfigMap, desired.KindAutoscaler, desired.KindBudget, desired.KindIngress}, kind)
}

// topError returns the most important cause of severity Error, or nil.
func (c *Component) topError() *explain.Cause {
	i := slices.IndexFunc(c.Causes, func(x explain.Cause) bool { return x.Severity == explain.Error })
	if i < 0 {
		return nil
	}
	return &c.Causes[i]
}

// hasCode reports whether the component already has a cause with this code.
func (c *Component) hasCode(code explain.Code) bool {
	return slices.ContainsFunc(c.Causes, func(x explain.Cause) bool { return x.Code == code })
}

// hasCause reports whether the component already has this cause for this object.
func (c *Component) hasCause(code explain.Code, kind, name string) bool {
	return slices.ContainsFunc(c.Causes, func(x explain.Cause) bool {
		return x.Code == code && x.Object.Kind == kind && x.Object.Name == name
	})
}
