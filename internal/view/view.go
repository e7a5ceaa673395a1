// Package view makes of an application and everything around it what people see: a tree
// with the health of each part, and why it is what it is. Plugin and center show it.
//
// Safety rule: it judges what it is given and reads nothing itself. What it was not given it
// does not call healthy.
package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Input is what is known about an application.
type Input struct {
	// App is the object, of kind Kind.
	App  metav1.Object
	Kind string
	// Status and Stack are parts of its status; Stack is nil for kinds of one component.
	Status *appsapi.ApplicationStatus
	Stack  *appsapi.StackStatus
	// Components is what it consists of.
	Components []desired.Component
	// Objects are its children, their pods and claims, and what these share with others. They
	// carry their kind.
	Objects []runtime.Object
	// Absent are, by component, ConfigMaps and Secrets that are referred to and not there.
	Absent map[string][]explain.Ref
	// Whole are the kinds of which everything is in Objects.
	Whole []string
	Now   time.Time
}

// View is an application as people see it.
type View struct {
	Kind, Namespace, Name string
	// Ready is what the operator says about the current generation.
	Ready bool
	// Health is as bad as the worst component.
	Health health.Status
	// Reason and Message are those of the condition Ready, since Since.
	Reason, Message string
	Since           time.Time
	Components      []Component
	// Causes are all of them, those of the whole first.
	Causes []explain.Cause
	// Ask are the objects whose events would tell more.
	Ask []explain.Object
	// Again is when to look again although nothing happens.
	Again time.Time
}

// Component is one part of it.
type Component struct {
	Name   string
	Type   appsapi.ComponentType
	Health health.Status
	// Message says in one sentence why it is not healthy.
	Message       string
	Ready, Wanted int32
	DependsOn     []string
	// WaitsFor are the dependencies that hold it back now.
	WaitsFor []string
	Workload desired.ID
	Causes   []explain.Cause
	Tree     []Node
}

// Waiting is the health of a component that another one holds back.
const Waiting health.Status = "Waiting"

// Of judges an application.
func Of(in Input) View {
	v := View{Kind: in.Kind, Namespace: in.App.GetNamespace(), Name: in.App.GetName(), Health: health.Unknown}
	index := indexOf(in)
	for _, c := range in.Components {
		v.Components = append(v.Components, v.component(in, index, c))
	}
	v.condition(in)
	v.wait(in, index)
	v.whole(in)
	for _, c := range v.Components {
		v.Causes = append(v.Causes, c.Causes...)
	}
	return v
}

// component judges one component.
func (v *View) component(in Input, index *index, c desired.Component) Component {
	s := index.scene(in, c)
	answer := explain.Explain(s, in.Now)
	v.Ask = append(v.Ask, answer.Ask...)
	v.later(answer.Again)
	out := Component{
		Name: c.Name, Type: c.Type, DependsOn: c.DependsOn, Workload: c.Workload,
		Causes: explain.Keep(answer.Causes, in.Status.Causes),
	}
	out.Tree = index.tree(in, c)
	out.Ready, out.Wanted = counts(index.children[c.Workload])
	var verdicts []health.Verdict
	for _, child := range c.Children {
		if obj := index.children[child.ID]; obj != nil {
			verdicts = append(verdicts, health.Of(obj))
			continue
		}
		if !index.read(child.Kind) {
			continue
		}
		verdicts = append(verdicts, health.Verdict{Status: health.Progressing, Message: fmt.Sprintf("%s %s does not exist", child.Kind.Kind, child.Name)})
	}
	verdict := health.Worst(verdicts...)
	out.Health, out.Message = verdict.Status, verdict.Message
	if top := out.cause(); top != nil {
		out.Health, out.Message = health.Degraded, top.Sentence
	} else if c.Suspended && out.Health == health.Healthy {
		out.Health, out.Message = health.Suspended, "It is suspended: nothing is repaired or updated"
	} else if out.Health == health.Healthy {
		out.Message = ""
	}
	return out
}

// cause is the most important one that explains something.
func (c *Component) cause() *explain.Cause {
	if len(c.Causes) > 0 && c.Causes[0].Severity == explain.Error {
		return &c.Causes[0]
	}
	return nil
}

func (v *View) later(t time.Time) {
	if !t.IsZero() && (v.Again.IsZero() || t.Before(v.Again)) {
		v.Again = t
	}
}

// condition reads what the operator says.
func (v *View) condition(in Input) {
	c := meta.FindStatusCondition(in.Status.Conditions, appsapi.ConditionReady)
	if c == nil {
		v.Message, v.Since = "The operator has not looked at it yet", in.App.GetCreationTimestamp().Time
		return
	}
	current := in.Status.ObservedGeneration == in.App.GetGeneration()
	v.Ready = c.Status == metav1.ConditionTrue && current
	v.Reason, v.Message, v.Since = c.Reason, c.Message, c.LastTransitionTime.Time
	if !current {
		v.Reason, v.Message = appsapi.ReasonProgressing, "The operator has not looked at the latest change yet"
	}
}

// wait finds out who holds whom back: the operator says who waits, the dependencies that are
// not satisfied are for whom.
func (v *View) wait(in Input, index *index) {
	waiting := map[string]bool{}
	if in.Stack != nil {
		for _, s := range in.Stack.Components {
			waiting[s.Name] = s.Reason == appsapi.ReasonWaitingForDependency
		}
	}
	for i := range v.Components {
		c := &v.Components[i]
		if !waiting[c.Name] {
			continue
		}
		for _, dep := range c.DependsOn {
			if other := v.Component(dep); other != nil && !health.Satisfied(index.children[other.Workload]) {
				c.WaitsFor = append(c.WaitsFor, dep)
			}
		}
		if len(c.WaitsFor) > 0 {
			c.Health, c.Message = Waiting, "waits for "+strings.Join(c.WaitsFor, ", ")
		}
	}
	// From those that wait for nobody up, so that each sentence ends with what is at the
	// bottom of it.
	for range v.Components {
		for i := range v.Components {
			v.explainWait(in, &v.Components[i])
		}
	}
}

func (v *View) explainWait(in Input, c *Component) {
	if len(c.WaitsFor) == 0 {
		return
	}
	blocker := v.Component(c.WaitsFor[0])
	why := blocker.Message
	if top := blocker.cause(); top != nil {
		why = top.Sentence
	}
	if why == "" {
		why = "it is not ready yet"
	}
	since := v.Since
	if top := blocker.cause(); top != nil {
		since = top.Since
	}
	wait := explain.Cause{
		Code: explain.DependencyWait, Object: explain.Object{Kind: in.Kind, Namespace: v.Namespace, Name: v.Name, UID: in.App.GetUID()},
		Path: "status.components", Value: c.Name, Since: since,
		Sentence: fmt.Sprintf("%s waits for %s: %s", c.Name, blocker.Name, why),
		Fix:      fmt.Sprintf("See to %s; %s goes on by itself.", blocker.Name, c.Name),
	}
	c.Causes = slices.DeleteFunc(c.Causes, func(x explain.Cause) bool { return x.Code == explain.DependencyWait })
	c.Causes = append(c.Causes, wait)
}

// Component is one by its name, or nil.
func (v *View) Component(name string) *Component {
	for i := range v.Components {
		if v.Components[i].Name == name {
			return &v.Components[i]
		}
	}
	return nil
}

// whole judges the application as a whole, and what only the operator knows: a name that is
// somebody else's, data that is in the way, a spec that can never work.
func (v *View) whole(in Input) {
	o := explain.Object{Kind: in.Kind, Namespace: v.Namespace, Name: v.Name, UID: in.App.GetUID()}
	verdicts := make([]health.Verdict, 0, len(v.Components))
	explained := false
	for _, c := range v.Components {
		verdicts = append(verdicts, health.Verdict{Status: plainHealth(c.Health)})
		explained = explained || c.cause() != nil
	}
	v.Health = health.Worst(verdicts...).Status
	unseen, again := explain.Unobserved(o, in.App, in.Status.ObservedGeneration, in.Now)
	v.later(again)
	switch {
	case in.App.GetDeletionTimestamp() != nil:
		v.Health, v.Ready = health.Progressing, false
		v.leaving(in, o)
	case unseen.Code != "":
		unseen.Sentence = fmt.Sprintf("The operator has not looked at the latest change of %s", o)
		unseen.Fix = "See whether the operator runs: kubectl holdfast doctor"
		v.Causes = append(v.Causes, unseen)
	case v.Ready || v.reported(in) || explained || slices.Contains(transient, v.Reason):
	case v.Reason != "":
		v.Causes = append(v.Causes, explain.Cause{
			Code: explain.Code(v.Reason), Object: o, Path: `status.conditions[?(@.type=="Ready")]`, Value: v.Reason, Since: v.Since,
			Sentence: v.Message, Fix: "Do what the sentence says; the operator goes on by itself.",
		})
		v.Health = health.Degraded
	}
}

// reported adds what the operator alone knows: who refuses its writes, and who undoes them.
// What it says about pods and claims is seen here, and newer.
func (v *View) reported(in Input) bool {
	found := false
	for _, c := range in.Status.Causes {
		if c.Object.Kind == "Pod" || c.Object.Kind == "PersistentVolumeClaim" || slices.ContainsFunc(v.Components, func(x Component) bool { return x.hasCode(c.Code) }) {
			continue
		}
		found = true
		v.Health = health.Degraded
		v.Causes = append(v.Causes, explain.Cause{
			Code: explain.Code(c.Code), Object: explain.Object{Kind: c.Object.Kind, Namespace: v.Namespace, Name: c.Object.Name},
			Since: c.Since.Time, Sentence: c.Message, Fix: "What to do about it: " + explain.Code(c.Code).Doc(),
		})
	}
	return found
}

func (c *Component) hasCode(code string) bool {
	return slices.ContainsFunc(c.Causes, func(x explain.Cause) bool { return string(x.Code) == code })
}

// transient are reasons that name no cause of their own.
var transient = []string{appsapi.ReasonProgressing, appsapi.ReasonWaitingForDependency, appsapi.ReasonSuspended, appsapi.ReasonComponentDegraded}

// leaving is an application on its way out: what its deletion waits for, or whom, once the
// operator has done its part.
func (v *View) leaving(in Input, o explain.Object) {
	var others []string
	for _, f := range in.App.GetFinalizers() {
		if f != appsapi.FinalizerOrderedDeletion {
			others = append(others, f)
		}
	}
	since := in.App.GetDeletionTimestamp().Time
	if len(others) > 0 && len(others) == len(in.App.GetFinalizers()) && in.Now.Sub(since) > leavingGrace {
		v.Causes = append(v.Causes, explain.Terminating(o, since, others))
	}
}

// leavingGrace is how long the owner of a finalizer may take.
const leavingGrace = 30 * time.Second

// plainHealth is the health of a component for the whole: one that waits is on its way.
func plainHealth(s health.Status) health.Status {
	if s == Waiting {
		return health.Progressing
	}
	return s
}
