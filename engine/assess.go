package engine

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// view is what was seen of one component.
type view struct {
	component desired.Component
	status    ComponentStatus
	verdict   health.Verdict
	causes    []explain.Cause
	// step is what was planned for it.
	step rollout.Step
	// starts is how the sentence goes on while the server of a database lets nobody in yet: that
	// somebody has killed it does not tell what it does now.
	starts string
	// quarrel is what is said for as long as somebody keeps changing a child.
	quarrel string
	// pending is set when a suspended component is not what the spec says.
	pending bool
	again   time.Time
}

// assess judges one component by its children and by what explains them.
func assess(c desired.Component, done *outcome, why explain.Answer, before []appsapi.Cause) view {
	v := view{component: c, step: done.step(c.Name), again: why.Again, causes: explain.Keep(why.Causes, before), status: ComponentStatus{
		Name: c.Name, Type: c.Type, ResourceName: c.Workload.Name, Selector: c.Selector(), Endpoints: c.Endpoints,
	}}
	v.verdict = childrenHealth(c, done)
	if d := v.step.Data; d != nil && d.Verdict != nil {
		v.verdict = health.Worst(*d.Verdict, v.verdict)
	} else if d != nil && d.Waits != nil {
		v.verdict = health.Worst(v.verdict, *d.Waits)
	}
	if said, asked := done.databases[c.Name]; asked {
		v.verdict = health.Worst(v.verdict, said)
		if said.Reason == appsapi.ReasonDatabaseStarting { // which says more than that a pod is not ready
			v.verdict = health.Worst(said, v.verdict)
			v.starts = "; t" + strings.TrimPrefix(said.Message, "T")
		}
		if said.Reason == appsapi.ReasonRotating && v.verdict.Status == health.Healthy {
			v.verdict = said
		}
		if said.Status == health.Healthy {
			v.status.Binding = c.Database.Binding
		}
	}
	for _, child := range c.Children {
		if v.quarrel == "" && done.contested[child.ID] {
			v.quarrel = quarrel(done.namespace, child.ID)
		}
	}
	v.count(done.seen[c.Workload])
	if c.Suspended {
		v.pending = rollout.Pending(c, done.seen)
	}
	return v
}

// count fills in how many pods there are.
func (v *view) count(workload runtime.Object) {
	switch w := workload.(type) {
	case *appsv1.Deployment:
		v.status.Wanted = 1
		if w.Spec.Replicas != nil {
			v.status.Wanted = *w.Spec.Replicas
		}
		v.status.Replicas, v.status.Ready, v.status.Available = w.Status.Replicas, w.Status.ReadyReplicas, w.Status.AvailableReplicas
		v.status.Selector = metav1.FormatLabelSelector(w.Spec.Selector)
	case *appsv1.StatefulSet:
		v.status.Wanted = 1
		if w.Spec.Replicas != nil {
			v.status.Wanted = *w.Spec.Replicas
		}
		v.status.Replicas, v.status.Ready, v.status.Available = w.Status.Replicas, w.Status.ReadyReplicas, w.Status.AvailableReplicas
		v.status.Selector = metav1.FormatLabelSelector(w.Spec.Selector)
	case *batchv1.Job:
		v.status.Wanted, v.status.Ready = 1, min(w.Status.Succeeded, 1)
	}
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

// degraded says whether something of a component is broken, as opposed to on its way.
func (v *view) degraded() bool { return len(v.causes) > 0 || v.verdict.Status == health.Degraded }

// trouble is what is wrong with a component, or on its way, in one sentence.
func (v *view) trouble() string {
	switch {
	case len(v.causes) > 0:
		return v.causes[0].Sentence + v.starts
	case v.quarrel != "":
		return v.quarrel
	case v.step.Runs != nil:
		return fmt.Sprintf("its run before, Job %s, has to end first", v.step.Runs.Name)
	case len(v.step.WaitsFor) > 0:
		return fmt.Sprintf("it waits for %q", v.step.WaitsFor[0])
	}
	return v.verdict.Message
}

// describe fills in the health of a component as its status shows it.
func (v *view) describe(others map[string]*view) {
	s := &v.status
	s.Health, s.Reason, s.Message = string(v.verdict.Status), v.verdict.Reason, v.verdict.Message
	switch {
	case len(v.causes) > 0:
		s.Health, s.Reason, s.Message = string(health.Degraded), appsapi.ReasonComponentDegraded, v.causes[0].Sentence+v.starts
	case v.quarrel != "":
		s.Health, s.Reason, s.Message = string(health.Progressing), appsapi.ReasonProgressing, v.quarrel
	case v.step.Waits():
		s.Health, s.Reason, s.Message = "Waiting", appsapi.ReasonWaitingForDependency, v.waiting(others)
	case v.component.Suspended:
		s.Reason = appsapi.ReasonSuspended
	case v.verdict.Status == health.Healthy && v.verdict.Reason != appsapi.ReasonRotating: // which waits, perhaps for somebody who never comes
		s.Message = ""
	}
}

// waiting names what blocks a component, and what is the matter with that.
func (v *view) waiting(others map[string]*view) string {
	if len(v.step.WaitsFor) == 0 {
		return fmt.Sprintf("Component %q: %s", v.component.Name, v.trouble())
	}
	blocker := v.step.WaitsFor[0]
	why := "it is not ready"
	if other := others[blocker]; other != nil {
		why = other.trouble()
	}
	return fmt.Sprintf("Component %q waits for %q: %s", v.component.Name, blocker, why)
}
