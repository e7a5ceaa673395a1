package view

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

// component judges one component.
func (v *View) component(in Input, index *index, c desired.Component) Component {
	var answer explain.Answer
	if v.Deleting { // what was broken no longer matters, what does not go does
		answer = index.lingering(in, c)
	} else {
		answer = explain.Explain(index.scene(in, c), in.Now)
	}
	v.Ask = append(v.Ask, answer.Ask...)
	v.later(answer.Again)
	out := Component{
		Name: c.Name, Type: c.Type, DependsOn: c.DependsOn, Workload: c.Workload,
		Causes: explain.Keep(answer.Causes, in.Status.Causes),
	}
	out.Tree = index.tree(in, c)
	blame(out.Tree, out.Causes)
	out.Ready, out.Wanted = counts(index.children[c.Workload])
	verdict := index.verdict(in, c)
	if c.Database != nil && !v.Deleting {
		verdict = health.Worst(verdict, asServersSay(in, c))
	}
	out.Health, out.Message = verdict.Status, verdict.Message
	switch top := out.cause(); {
	case top != nil:
		out.Health, out.Message = health.Degraded, top.Sentence
	case c.Suspended && out.Health == health.Healthy:
		out.Health, out.Message = health.Suspended, "It is suspended: nothing is repaired or updated"
	case c.Suspended && !v.Deleting:
		out.Message += "; it is suspended, so nothing is repaired"
	case out.Health == health.Healthy:
		out.Message = ""
	}
	return out
}

// asServersSay is what the operator was told by a server: nobody else asks them.
func asServersSay(in Input, c desired.Component) health.Verdict {
	stack, ok := in.App.(interface{ StackStatus() *appsapi.StackStatus })
	if ok {
		for _, s := range stack.StackStatus().Components {
			if s.Name == c.Name && s.Health != "" {
				return health.Verdict{Status: health.Status(s.Health), Reason: s.Reason, Message: s.Message}
			}
		}
	}
	return health.Verdict{Status: health.Healthy}
}

// verdict is as bad as the worst child.
func (ix *index) verdict(in Input, c desired.Component) health.Verdict {
	deleting := in.App.GetDeletionTimestamp() != nil
	var verdicts []health.Verdict
	for _, child := range c.Children {
		switch obj := ix.children[child.ID]; {
		case obj != nil:
			verdicts = append(verdicts, health.Of(obj))
		case !ix.read(child.Kind):
			if !isSetting(child.Kind) {
				verdicts = append(verdicts, health.Verdict{Status: health.Unknown, Message: fmt.Sprintf("%s %s was not looked at", child.Kind.Kind, child.Name)})
			}
		case !deleting:
			verdicts = append(verdicts, health.Verdict{Status: health.Progressing, Message: fmt.Sprintf("%s %s does not exist", child.Kind.Kind, child.Name)})
		}
	}
	if deleting && len(verdicts) == 0 {
		left := slices.ContainsFunc(ix.parts(in, c), func(obj runtime.Object) bool { _, isPod := obj.(*corev1.Pod); return isPod })
		if left {
			return health.Verdict{Status: health.Progressing, Message: "its pods are not gone yet"}
		}
		return health.Verdict{Status: health.Progressing, Message: "everything of it is gone"}
	}
	return health.Worst(verdicts...)
}

// lingering are the pods of a component that should be gone and are held by somebody.
func (ix *index) lingering(in Input, c desired.Component) (a explain.Answer) {
	for _, obj := range ix.parts(in, c) {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.DeletionTimestamp == nil || len(pod.Finalizers) == 0 {
			continue
		}
		if end := pod.DeletionTimestamp.Add(leavingGrace); in.Now.Before(end) {
			a.Again = end
			continue
		}
		o := explain.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		a.Causes = append(a.Causes, explain.Terminating(o, pod.DeletionTimestamp.Time, pod.Finalizers))
	}
	return a
}

// isSetting says whether objects of a kind have done their part by being there, which the
// operator sees to: not to have seen one leaves nothing open.
func isSetting(kind schema.GroupVersionKind) bool {
	return slices.Contains([]schema.GroupVersionKind{desired.KindConfigMap, desired.KindAutoscaler, desired.KindBudget, desired.KindIngress}, kind)
}

// cause is the most important one that explains something.
func (c *Component) cause() *explain.Cause {
	i := slices.IndexFunc(c.Causes, func(x explain.Cause) bool { return x.Severity == explain.Error })
	if i < 0 {
		return nil
	}
	return &c.Causes[i]
}

// has says whether a cause of an object is known already.
func (c *Component) has(code explain.Code, kind, name string) bool {
	return slices.ContainsFunc(c.Causes, func(x explain.Cause) bool {
		return x.Code == code && x.Object.Kind == kind && x.Object.Name == name
	})
}
