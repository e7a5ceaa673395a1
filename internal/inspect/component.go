package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// evaluateComponent judges one component.
func (v *View) evaluateComponent(in Input, index *appIndex, c desired.Component) Component {
	var diagnosis explain.Diagnosis
	if v.Deleting { // what was broken no longer matters, what does not go does
		diagnosis = index.stuckPods(in, c)
	} else {
		diagnosis = explain.Explain(index.snapshot(in, c), in.Now)
	}
	v.EventsNeeded = append(v.EventsNeeded, diagnosis.EventsNeeded...)
	v.scheduleRecheck(diagnosis.RecheckAt)
	result := Component{
		Name: c.Name, Type: c.Type, DependsOn: c.DependsOn, Workload: c.Workload,
		Causes: explain.PreserveSince(diagnosis.Causes, in.Status.Causes),
	}
	result.Tree = index.buildTree(in, c)
	annotateCauses(result.Tree, result.Causes)
	result.Ready, result.Desired = replicaCounts(index.children[c.Workload])
	verdict := index.childrenVerdict(in, c)
	if c.Database != nil && !v.Deleting {
		verdict = health.Worst(verdict, reportedDatabaseHealth(in, c))
	}
	result.Health, result.Message = verdict.Status, verdict.Message
	switch top := result.topError(); {
	case top != nil:
		result.Health, result.Message = health.Degraded, top.Message
	case c.Suspended && result.Health == health.Healthy:
		result.Health, result.Message = health.Suspended, "It is suspended: nothing is repaired or updated"
	case c.Suspended && !v.Deleting:
		result.Message += "; it is suspended, so nothing is repaired"
	case result.Health == health.Healthy:
		result.Message = ""
	}
	return result
}

// reportedDatabaseHealth is what the operator was told by a server: nobody else asks them.
func reportedDatabaseHealth(in Input, c desired.Component) health.Result {
	stack, ok := in.App.(interface{ StackStatus() *appsapi.StackStatus })
	if ok {
		for _, s := range stack.StackStatus().Components {
			if s.Name == c.Name && s.Health != "" {
				return health.Result{Status: health.Status(s.Health), Reason: s.Reason, Message: s.Message}
			}
		}
	}
	return health.Result{Status: health.Healthy}
}

// childrenVerdict is as bad as the worst child.
func (ix *appIndex) childrenVerdict(in Input, c desired.Component) health.Result {
	deleting := in.App.GetDeletionTimestamp() != nil
	var verdicts []health.Result
	for _, child := range c.Children {
		switch obj := ix.children[child.ID]; {
		case obj != nil:
			verdicts = append(verdicts, health.Evaluate(obj))
		case !ix.wasRead(child.Kind):
			if !isPassiveKind(child.Kind) {
				verdicts = append(verdicts, health.Result{Status: health.Unknown, Message: fmt.Sprintf("%s %s was not looked at", child.Kind.Kind, child.Name)})
			}
		case !deleting:
			verdicts = append(verdicts, health.Result{Status: health.Progressing, Message: fmt.Sprintf("%s %s does not exist", child.Kind.Kind, child.Name)})
		}
	}
	if deleting && len(verdicts) == 0 {
		podsLeft := slices.ContainsFunc(ix.componentObjects(in, c), func(obj runtime.Object) bool { _, isPod := obj.(*corev1.Pod); return isPod })
		if podsLeft {
			return health.Result{Status: health.Progressing, Message: "its pods are not gone yet"}
		}
		return health.Result{Status: health.Progressing, Message: "everything of it is gone"}
	}
	return health.Worst(verdicts...)
}

// stuckPods are the pods of a component that should be gone and are held by somebody.
func (ix *appIndex) stuckPods(in Input, c desired.Component) (out explain.Diagnosis) {
	for _, obj := range ix.componentObjects(in, c) {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.DeletionTimestamp == nil || len(pod.Finalizers) == 0 {
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

// isPassiveKind says whether objects of a kind have done their part by being there, which the
// operator sees to: not to have seen one leaves nothing open.
func isPassiveKind(kind schema.GroupVersionKind) bool {
	return slices.Contains([]schema.GroupVersionKind{desired.KindConfigMap, desired.KindAutoscaler, desired.KindBudget, desired.KindIngress}, kind)
}

// topError is the most important one that explains something.
func (c *Component) topError() *explain.Cause {
	i := slices.IndexFunc(c.Causes, func(x explain.Cause) bool { return x.Severity == explain.Error })
	if i < 0 {
		return nil
	}
	return &c.Causes[i]
}

// hasCause says whether a cause of an object is known already.
func (c *Component) hasCause(code explain.Code, kind, name string) bool {
	return slices.ContainsFunc(c.Causes, func(x explain.Cause) bool {
		return x.Code == code && x.Object.Kind == kind && x.Object.Name == name
	})
}
