// Package rollout plans a reconcile: from the desired and the observed state it decides which
// children are applied now, which components wait for dependencies, and which children are deleted.
//
// Safety rule: a plan deletes only children that belong to the application, are not declared in the
// spec, and are not needed by running pods.
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

// Object is an observed child.
type Object interface {
	metav1.Object
	runtime.Object
}

// Observed contains the existing children of all components, and all other objects of the
// application.
type Observed map[desired.ID]Object

// Input is the input of a plan.
type Input struct {
	Owner      desired.Owner
	Components []desired.Component
	Observed   Observed
	// ProtectedJobs are the hashes of job specs that must not run twice.
	ProtectedJobs map[string]bool
	// Retained are the claims and credentials of the application, including those of components
	// that were removed from the spec.
	Retained []desired.RetainedObject
	// DeleteData is set if data is deleted together with its component.
	DeleteData bool
	// DatabaseHealth is the result of the database probes, by component: a running pod does not
	// mean that applications can log in.
	DatabaseHealth map[string]health.Result
	// StartedImages are the images of database servers that have started on the volume, by
	// component.
	StartedImages map[string]string
}

// Plan is the result of NewPlan.
type Plan struct {
	// Steps has one step per component, in spec order. Steps do not depend on each other.
	Steps []Step
	// Prune is executed after all steps succeeded.
	Prune []Removal
	// PendingRemovals are components that were removed from the spec but cannot be deleted yet.
	PendingRemovals []PendingRemoval
	// Retain is data without a component that must be labeled as retained.
	Retain []LabelUpdate
	// Purge is data that is deleted together with its component.
	Purge []desired.RetainedObject
	// PruneSuspended is set if everything is suspended and a component was removed from the spec.
	// The removed component is deleted after the application is resumed.
	PruneSuspended bool
}

// Step is the plan for one component. Its applies do not depend on each other; its removals follow
// after all applies succeeded.
type Step struct {
	Component string
	// RemoveFirst is deleted before anything is applied: a disabled autoscaler must not change the
	// replicas that the spec now sets.
	RemoveFirst []desired.ID
	Apply       []ChildApply
	Remove      []desired.ID
	// WaitsFor are the dependencies that are not ready, if they hold the step back.
	WaitsFor []string
	// PreviousRun is an earlier run of a job that must finish first.
	PreviousRun *desired.ID
	// Data is the plan for the data of the component; nil if it has none.
	Data *DataPlan
}

// IsWaiting reports whether the step is held back.
func (s Step) IsWaiting() bool { return len(s.WaitsFor) > 0 || s.PreviousRun != nil }

// ChildApply is a child to apply.
type ChildApply struct {
	desired.Child
	// HoldPodTemplate keeps the current pod template.
	HoldPodTemplate bool
}

// Removal is a child to delete.
type Removal struct {
	Component string
	Child     desired.ID
}

// PendingRemoval is a component that was removed from the spec, and why it still exists.
type PendingRemoval struct {
	Component string
	Message   string
	// Workload is the label value of pods that must terminate first; empty if another finalizer blocks the deletion.
	Workload string
}

// NewPlan plans a reconcile. The error is an *InvalidSpec.
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
	remove, pending := p.planPrune()
	if len(plan.Steps) == 0 { // everything is suspended
		plan.PruneSuspended = len(remove)+len(pending) > 0
		return plan, nil
	}
	plan.Prune, plan.PendingRemovals = remove, pending
	p.planUnusedData(&plan)
	return plan, nil
}

// planner plans for one application.
type planner struct {
	Input
	components     map[string]*desired.Component
	leftovers      []leftover
	dependencies   map[string][]string // of running pods, only set if there are leftovers
	satisfiedCache map[string]bool     // results of satisfied(), keyed by component, because each call renders the component
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

// satisfied reports whether dependents of a component can proceed: a majority of its pods is ready,
// and they run the desired template.
func (p *planner) satisfied(c *desired.Component) bool {
	ok, cached := p.satisfiedCache[c.Name]
	if !cached {
		live := p.workload(c)
		ok = c.NonBlocking || live != nil && health.Satisfied(live) && (c.Suspended || !ReplacesPods(*c, live)) && p.databaseReady(c)
		p.satisfiedCache[c.Name] = ok
	}
	return ok
}

// databaseReady reports whether applications can log in to a database.
func (p *planner) databaseReady(c *desired.Component) bool {
	return c.Database == nil || c.Suspended || p.DatabaseHealth[c.Name].Status == health.Healthy
}

// workload returns the workload of a component if it exists and is controlled by the application,
// or nil.
func (p *planner) workload(c *desired.Component) Object {
	if live := p.Observed[c.Workload]; live != nil && p.isControlled(live) {
		return live
	}
	return nil
}

// isControlled reports whether the owner reference of an object names the application as controller.
func (p *planner) isControlled(live Object) bool {
	return metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: p.Owner.UID})
}

// belongsToOwner reports whether a workload belongs to the application, even if it lost its owner
// reference, which the next apply restores.
func (p *planner) belongsToOwner(live Object) bool {
	return p.isControlled(live) || metav1.GetControllerOfNoCopy(live) == nil && live.GetLabels()[p.Owner.Keys.OwnerUID] == string(p.Owner.UID)
}

// ReplacesPods reports whether applying a component would replace the pods of a workload. If the
// component cannot be rendered, the result is false, and the apply reports the error.
func ReplacesPods(c desired.Component, live Object) bool {
	replaces, err := ReplacesPodsOrError(c, live)
	return err == nil && replaces
}

// ReplacesPodsOrError is like ReplacesPods, but returns the error if the component cannot be rendered.
func ReplacesPodsOrError(c desired.Component, live Object) (bool, error) {
	for _, child := range c.Children {
		if child.ID != c.Workload {
			continue
		}
		config, err := child.RenderReadOnly(live)
		return err == nil && config.ReplacesPods(live), err
	}
	return false, nil
}

// planStep plans one component. The component is created, and its pods are replaced, only when its
// dependencies are ready. All other changes are applied without delay, so that users can act while
// a dependency is down.
func (p *planner) planStep(c *desired.Component) Step {
	step := Step{Component: c.Name}
	live := p.workload(c)
	unsatisfied, hold := p.unsatisfied(c), false
	// Also if the workload is not controlled by the application yet: the apply may adopt it.
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
			continue // applied again after the deletion, see DataPlan.RecreateStatefulSet
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

// unsatisfied returns the dependencies that are not ready.
func (p *planner) unsatisfied(c *desired.Component) []string {
	var out []string
	if c.Data != nil && c.Data.OrphanedReplicas > 0 {
		return nil // its pods are already running
	}
	for _, dep := range c.DependsOn {
		other := p.components[dep]
		if !p.satisfied(other) || slices.Contains(c.BoundTo, dep) && !p.controlsService(other) {
			out = append(out, dep)
		}
	}
	return out
}

// controlsService reports whether the application controls the Service of a component, if the
// component has one. A Service of another owner with the same name routes to other pods.
func (p *planner) controlsService(c *desired.Component) bool {
	for _, child := range c.Children {
		if live := p.Observed[child.ID]; child.Kind == desired.KindService && (live == nil || !p.isControlled(live)) {
			return false
		}
	}
	return true
}

// supersedeRuns deletes earlier runs of a job whose spec changed, and waits until they are deleted,
// so that two runs never overlap. The status of a Job is not sufficient: it counts a new pod a
// second late, and does not count a terminating pod.
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

// finishedBeforeDeletion reports whether a run has finished, regardless of whether its Job is being
// deleted.
func finishedBeforeDeletion(j *batchv1.Job) bool {
	job := *j
	job.DeletionTimestamp = nil
	return JobFinished(&job)
}

// JobFinished reports whether a run has succeeded or failed.
func JobFinished(j *batchv1.Job) bool {
	v := health.Evaluate(j)
	return v.Status == health.Healthy || v.Status == health.Degraded
}

// isPruneDisabled reports whether an annotation protects a child from being pruned.
func isPruneDisabled(keys *appsapi.Keys, live Object) bool {
	return live.GetAnnotations()[keys.Prune] == appsapi.PruneDisabled
}

// ProtectedJobSpecs returns the hashes of the jobs of all stored revisions, except those about to
// be deleted. A rollback to such a revision must not run its jobs again.
func ProtectedJobSpecs(keys *appsapi.Keys, revisions, pruned []*appsv1.ControllerRevision) map[string]bool {
	protected := map[string]bool{}
	for _, revision := range revisions {
		if slices.ContainsFunc(pruned, func(r *appsv1.ControllerRevision) bool { return r.Name == revision.Name }) {
			continue
		}
		for _, spec := range desired.RevisionJobHashes(keys, revision) {
			protected[spec] = true
		}
	}
	return protected
}

// HasPendingChanges reports whether the children of a component, for example of a suspended
// component, differ from its spec.
func HasPendingChanges(keys *appsapi.Keys, c desired.Component, observed Observed) bool {
	desiredIDs := map[desired.ID]bool{}
	for _, child := range c.Children {
		desiredIDs[child.ID] = true
		live := observed[child.ID]
		if live == nil {
			return true
		}
		config, err := child.RenderReadOnly(live)
		if err != nil || !config.AppliedTo(live) {
			return true
		}
	}
	for id, live := range observed {
		if live.GetLabels()[appsapi.LabelComponent] == c.Name && id.Kind != desired.KindJob && !desiredIDs[id] && !isPruneDisabled(keys, live) {
			return true
		}
	}
	return false
}
