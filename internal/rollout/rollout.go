// Package rollout decides: which children of which components are applied now, which
// wait and for whom, and which are removed, from what is wanted and what was seen.
//
// Safety rule: what it removes is ours, is not wanted, and nothing that runs needs it.
package rollout

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Object is a child as it was seen.
type Object interface {
	metav1.Object
	runtime.Object
}

// Observed is what was observed: every child of every component that exists, and everything
// else that is ours.
type Observed map[desired.ID]Object

// Input is everything a plan is made of.
type Input struct {
	Owner      desired.Owner
	Components []desired.Component
	Observed   Observed
	// ProtectedJobs are the hashes of job specs that must not run twice.
	ProtectedJobs map[string]bool
	// Retained are the claims and credentials of the application, those of components that
	// left the spec included.
	Retained []desired.RetainedObject
	// DeleteData is set when data goes with the component that it belongs to.
	DeleteData bool
	// DatabaseHealth are what the servers of databases say, by component: pods that run are not
	// enough to let an application in.
	DatabaseHealth map[string]health.Result
	// StartedImages are the images of servers that have been let near the data of databases, by component.
	StartedImages map[string]string
}

// Plan is what to do now.
type Plan struct {
	// Steps are one per component, in order; they do not depend on each other.
	Steps []Step
	// Prune follows when every step succeeded.
	Prune []Removal
	// PendingRemovals is what left the spec and cannot go yet.
	PendingRemovals []PendingRemoval
	// Retain is data that no component has, and that has to say that it is kept.
	Retain []LabelUpdate
	// Purge is data that goes with its component, as was asked for.
	Purge []desired.RetainedObject
	// PruneSuspended is set when everything is suspended and something has left the spec: it stays
	// until hands are on again.
	PruneSuspended bool
}

// Step is what to do for one component. Its applies do not depend on each other; its
// removals follow when all of them succeeded.
type Step struct {
	Component string
	// RemoveFirst goes before anything is applied: an autoscaler that is switched off must not
	// undo the number of pods that takes its place.
	RemoveFirst []desired.ID
	Apply       []ChildApply
	Remove      []desired.ID
	// WaitsFor are the components it waits for, while something is held back for them.
	WaitsFor []string
	// PreviousRun is the earlier run of a job that has to end first.
	PreviousRun *desired.ID
	// Data is what to do about its data, if it has any.
	Data *DataPlan
}

// IsWaiting says whether something is held back.
func (s Step) IsWaiting() bool { return len(s.WaitsFor) > 0 || s.PreviousRun != nil }

// ChildApply is a child to apply.
type ChildApply struct {
	desired.Child
	// HoldPodTemplate leaves its pods as they are.
	HoldPodTemplate bool
}

// Removal is a child to delete.
type Removal struct {
	Component string
	Child     desired.ID
}

// PendingRemoval is a component that left the spec, and why it is still there.
type PendingRemoval struct {
	Component string
	Message   string
}

// NewPlan plans what to do. The error is an *Invalid.
func NewPlan(in Input) (Plan, error) {
	if err := Validate(in.Components); err != nil {
		return Plan{}, err
	}
	p := newPlanner(in)
	var plan Plan
	for i := range in.Components {
		if c := &in.Components[i]; !c.Suspended {
			plan.Steps = append(plan.Steps, p.planStep(c))
		}
	}
	remove, pending := p.prune()
	if len(plan.Steps) == 0 { // hands off
		plan.PruneSuspended = len(remove)+len(pending) > 0
		return plan, nil
	}
	plan.Prune, plan.PendingRemovals = remove, pending
	p.planUnusedData(&plan)
	return plan, nil
}

// planner answers questions about one application.
type planner struct {
	Input
	components     map[string]*desired.Component
	leftovers      []leftover
	dependencies   map[string][]string // of what runs, while there are leftovers
	satisfiedCache map[string]bool     // of satisfied, which renders: once per component, not per edge
}

func newPlanner(in Input) *planner {
	p := &planner{Input: in, components: map[string]*desired.Component{}, satisfiedCache: map[string]bool{}}
	for i := range in.Components {
		p.components[in.Components[i].Name] = &in.Components[i]
	}
	if p.leftovers = p.findLeftovers(); len(p.leftovers) > 0 {
		p.dependencies = p.findDependencies()
	}
	return p
}

// satisfied says whether those that depend on a component may go on: a majority of its
// pods is ready, and they are the pods we want.
func (p *planner) satisfied(c *desired.Component) bool {
	ok, cached := p.satisfiedCache[c.Name]
	if !cached {
		live := p.workload(c)
		ok = c.NonBlocking || live != nil && health.Satisfied(live) && (c.Suspended || !ReplacesPods(*c, live)) && p.databaseReady(c)
		p.satisfiedCache[c.Name] = ok
	}
	return ok
}

// databaseReady says whether a database lets its application in.
func (p *planner) databaseReady(c *desired.Component) bool {
	return c.Database == nil || c.Suspended || p.DatabaseHealth[c.Name].Status == health.Healthy
}

// workload is the workload of a component, if it is there and ours.
func (p *planner) workload(c *desired.Component) Object {
	if live := p.Observed[c.Workload]; live != nil && p.controlled(live) {
		return live
	}
	return nil
}

func (p *planner) controlled(live Object) bool {
	return metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: p.Owner.UID})
}

// belongsToOwner says whether a workload runs for the application, also when it lost its
// reference to it: the apply puts that back.
func (p *planner) belongsToOwner(live Object) bool {
	return p.controlled(live) || metav1.GetControllerOfNoCopy(live) == nil && live.GetLabels()[appsapi.LabelOwnerUID] == string(p.Owner.UID)
}

// ReplacesPods says whether what is wanted would replace the pods of a workload. What
// cannot be said is for the apply to tell.
func ReplacesPods(c desired.Component, live Object) bool {
	replaces, err := WouldReplacePods(c, live)
	return err == nil && replaces
}

// WouldReplacePods says it, or why it cannot be said.
func WouldReplacePods(c desired.Component, live Object) (bool, error) {
	for _, child := range c.Children {
		if child.ID != c.Workload {
			continue
		}
		config, err := child.RenderReadOnly(live)
		return err == nil && config.ReplacesPods(live), err
	}
	return false, nil
}

// planStep decides for one component. Creating it and replacing its pods wait for what it
// depends on; everything else passes, so that people can act while a dependency is down.
func (p *planner) planStep(c *desired.Component) Step {
	step := Step{Component: c.Name}
	live := p.workload(c)
	unsatisfied, hold := p.unsatisfied(c), false
	// Also of one that is not ours yet, or lost its reference to us: the apply may take it.
	if existing := p.Observed[c.Workload]; existing != nil && len(unsatisfied) > 0 {
		hold = ReplacesPods(*c, existing)
	}
	p.supersedeRuns(c, &step)
	if c.Data != nil {
		step.Data = p.planData(c, live)
		hold = hold || !step.Data.PodsAllowed
		if !step.Data.PodsAllowed && live == nil {
			return step
		}
	}
	if live == nil && step.PreviousRun == nil || hold {
		step.WaitsFor = unsatisfied
	}
	for _, child := range c.Children {
		if live == nil && (len(unsatisfied) > 0 || step.PreviousRun != nil) && p.Observed[child.ID] == nil {
			continue
		}
		if child.ID == c.Workload && live != nil && isOrphaningPods(live) {
			continue // it will be made anew around its pods
		}
		step.Apply = append(step.Apply, ChildApply{child, hold && child.ID == c.Workload})
	}
	for _, id := range p.optionalLeftovers(c) {
		if id.Kind == desired.KindAutoscaler {
			step.RemoveFirst = append(step.RemoveFirst, id)
			continue
		}
		step.Remove = append(step.Remove, id)
	}
	return step
}

// unsatisfied are the dependencies that are not ready.
func (p *planner) unsatisfied(c *desired.Component) []string {
	var out []string
	if c.Data != nil && c.Data.OrphanedReplicas > 0 {
		return nil // nothing begins with it
	}
	for _, dep := range c.DependsOn {
		other := p.components[dep]
		if !p.satisfied(other) || slices.Contains(c.BoundTo, dep) && !p.reachable(other) {
			out = append(out, dep)
		}
	}
	return out
}

// reachable says whether the Service of a component leads to it. One of somebody else
// under the same name leads elsewhere, and nobody may be sent there.
func (p *planner) reachable(c *desired.Component) bool {
	for _, child := range c.Children {
		if live := p.Observed[child.ID]; child.Kind == desired.KindService && (live == nil || !p.controlled(live)) {
			return false
		}
	}
	return true
}

// supersedeRuns ends earlier runs of a job that now runs with another spec, and waits until
// they are gone: two runs at once are nobody's wish. The status of a run does not tell
// whether a pod is at work: it learns of one that has started a second late, and does not
// count one that takes its time to end.
func (p *planner) supersedeRuns(c *desired.Component, step *Step) {
	if c.JobSpecHash == "" {
		return
	}
	for _, l := range p.leftovers {
		run, ok := l.live.(*batchv1.Job)
		if !ok || l.component != c.Name || finishedBeforeDeletion(run) {
			continue
		}
		step.PreviousRun = &l.id
		if run.DeletionTimestamp == nil {
			step.Remove = append(step.Remove, l.id)
		}
	}
}

// finishedBeforeDeletion says whether a run has come to its end, also if it is being deleted since.
func finishedBeforeDeletion(j *batchv1.Job) bool {
	job := *j
	job.DeletionTimestamp = nil
	return JobFinished(&job)
}

// JobFinished says whether a run has come to its end, good or bad.
func JobFinished(j *batchv1.Job) bool {
	v := health.Evaluate(j)
	return v.Status == health.Healthy || v.Status == health.Degraded
}

// pruneDisabled says whether somebody wants a child to stay.
func pruneDisabled(live Object) bool {
	return live.GetAnnotations()[appsapi.AnnotationPrune] == appsapi.PruneDisabled
}

// ProtectedJobSpecs are the hashes of the jobs of all remembered specs, apart from those that are
// about to be forgotten: one may go back to them, and what they did must not be done twice.
func ProtectedJobSpecs(revisions, pruned []*appsv1.ControllerRevision) map[string]bool {
	protected := map[string]bool{}
	for _, revision := range revisions {
		if slices.ContainsFunc(pruned, func(r *appsv1.ControllerRevision) bool { return r.Name == revision.Name }) {
			continue
		}
		for _, spec := range desired.RevisionJobHashes(revision) {
			protected[spec] = true
		}
	}
	return protected
}

// HasPendingChanges says whether a component, one that is suspended for example, is not what its spec
// says.
func HasPendingChanges(c desired.Component, observed Observed) bool {
	desiredIDs := map[desired.ID]bool{}
	for _, child := range c.Children {
		desiredIDs[child.ID] = true
		live := observed[child.ID]
		if live == nil {
			return true
		}
		config, err := child.RenderReadOnly(live)
		if err != nil || config.Hash() != live.GetAnnotations()[appsapi.AnnotationAppliedHash] {
			return true
		}
	}
	for id, live := range observed {
		if live.GetLabels()[appsapi.LabelComponent] == c.Name && id.Kind != desired.KindJob && !desiredIDs[id] {
			return true
		}
	}
	return false
}
