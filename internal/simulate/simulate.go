// Package simulate plays what the operator would do about an application, pass by pass, on
// a copy of what is in the cluster. It decides with the operator's own planner and asks a
// Server what the API server would make of each write. Between two passes it plays a
// Kubernetes in which everything goes well: pods become ready, jobs end, volumes grow.
//
//	seen, kept ──► desired.For ──► rollout.For ──► write into the copy ─┐
//	     ▲                                                              │
//	     ├── something was written: look again ◄────────────────────────┤
//	     └── nothing was: everything becomes ready, the next round ◄────┘
//
// Safety rule: it changes nothing that it is given, and a Server that it is given must not
// change anything either.
package simulate

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Input is an application, and the cluster as it is.
type Input struct {
	Owner          desired.Owner
	ComponentSpecs []appsapi.Component
	Contents       desired.RefStates
	// Observed are the children of the application, and what else of ours has the name of one.
	Observed rollout.Observed
	// Unowned have the name of a child, and nothing that says that they are ours. The operator
	// meets them when it writes.
	Unowned  rollout.Observed
	Retained []desired.RetainedObject
	// RunningPods counts the pods of components that have no StatefulSet.
	RunningPods map[string]int32
	// Spec is what is remembered of the application; nil is nothing. Revisions are those
	// that are remembered, and Limit is how many may be, 0 for the usual number.
	Spec          *history.Spec
	Revisions     []*appsv1.ControllerRevision
	RevisionLimit int
	// DeleteData is set when data goes with the component that it belongs to.
	DeleteData bool
}

// APIServer answers as the API server would, and changes nothing.
type APIServer interface {
	// Apply returns what an object becomes. live is nil if there is none; recreated is set if
	// there is one that will be deleted before.
	Apply(id desired.ID, config *desired.Config, live rollout.Object, recreated bool) (rollout.Object, error)
	// Resize says whether a claim may ask for another size.
	Resize(claim *corev1.PersistentVolumeClaim, size resource.Quantity) error
	// GetClaim returns the claim of a name, or nil.
	GetClaim(name string) (*corev1.PersistentVolumeClaim, error)
	// HasSecret says whether there is a Secret of a name.
	HasSecret(name string) (bool, error)
	// PodUsing names a pod of somebody else that uses what is kept, or nothing.
	PodUsing(kept desired.RetainedObject) (string, error)
}

// Result is what the operator would do, until there is nothing left to do.
type Result struct {
	// SpecErr is why the spec can never work. Nothing is written then.
	SpecErr error
	// AllSuspended is set when everything is suspended, and Held when something that left the
	// spec stays because of that.
	AllSuspended, HeldBySuspend bool
	// Components are those of the spec.
	Components []desired.Component
	// Objects has an entry for everything that is there before or after, or is refused.
	Objects map[desired.ID]*ObjectResult
	// Problems is why a component does not get on, by its name: about its data, or because
	// it waits for something that will not come.
	Problems map[string]string
}

// ObjectResult is what becomes of one object.
type ObjectResult struct {
	ID        desired.ID
	Component string
	// Before and Now are nil when it does not exist then.
	Before, After rollout.Object
	// Recreated is set when it is deleted and made again; its pods stay if it is a StatefulSet.
	Recreated bool
	// Pass is the last one that wrote it, from 1; 0 is none.
	Pass int
	// WaitsFor are the components that have to be ready first.
	WaitsFor []string
	// PendingReason it stays for a while although nobody wants it.
	PendingReason string
	// Rejected is why it cannot be what the spec wants.
	Rejected error
}

// Run plays until there is nothing left to write.
func Run(in Input, server APIServer) (*Result, error) {
	p := &simulator{
		Input: in, server: server, observed: maps.Clone(in.Observed), unowned: maps.Clone(in.Unowned),
		runningPods: maps.Clone(in.RunningPods), deleted: map[desired.ID]bool{}, recreated: map[desired.ID]bool{},
		waits: map[string][]waitRecord{}, pendingRemovals: map[string]waitRecord{}, lastWrite: map[desired.ID]passID{}, problems: map[string]string{},
	}
	if p.runningPods == nil {
		p.runningPods = map[string]int32{}
	}
	p.retained = append(p.retained, in.Retained...)
	p.revisions = append(p.revisions, in.Revisions...)
	// Each pass writes something, or makes something ready.
	for maxPasses := 50 + 10*(len(in.ComponentSpecs)+len(in.Observed)); ; {
		p.current.pass++
		done, err := p.runPass()
		if err != nil {
			return nil, err
		}
		if done {
			return p.result(), nil
		}
		if p.current.pass == maxPasses {
			return nil, fmt.Errorf("there is no end to what would be written of %s %s/%s", in.Owner.Kind, in.Owner.Namespace, in.Owner.Name)
		}
	}
}

// passID is a pass, and the round that it is in. A round ends when nothing more can be
// written until something becomes ready.
type passID struct{ round, pass int }

// waitRecord is what a component waited for in a round.
type waitRecord struct {
	round      int
	components []string
	reason     string
}

// simulator plays one application.
type simulator struct {
	Input
	server APIServer

	// The copy of the cluster.
	observed, unowned rollout.Observed
	retained          []desired.RetainedObject
	runningPods       map[string]int32
	revisions         []*appsv1.ControllerRevision

	current         passID
	writtenThisPass map[desired.ID]bool  // in this pass
	rejections      map[desired.ID]error // of this pass
	components      []desired.Component
	revisionPlan    history.Plan
	specErr         error
	allSuspended    bool
	heldBySuspend   bool

	// What was seen on the way.
	deleted, recreated map[desired.ID]bool
	waits              map[string][]waitRecord
	pendingRemovals    map[string]waitRecord
	lastWrite          map[desired.ID]passID
	problems           map[string]string // of the last pass
}

// runPass plays one pass, and what Kubernetes does when there is nothing left to write.
func (sim *simulator) runPass() (done bool, err error) {
	sim.writtenThisPass, sim.rejections, sim.problems = map[desired.ID]bool{}, map[desired.ID]error{}, map[string]string{}
	plan, ok := sim.planNext()
	if !ok {
		return true, nil
	}
	sim.recordWaits(plan)
	if err := sim.saveRevision(); err != nil {
		return false, err
	}
	if err := sim.applyPlan(plan); err != nil {
		return false, err
	}
	if len(sim.writtenThisPass) > 0 {
		return false, nil // what goes is gone before anything is ready
	}
	changed := sim.advanceCluster()
	sim.current.round++
	return !changed && !sim.markHealthy(plan), nil
}

// planNext asks the planner of the operator. There is nothing to do for a spec that can never
// work, and with hands off.
func (sim *simulator) planNext() (plan rollout.Plan, ok bool) {
	sim.components = desired.Build(sim.Owner, sim.ComponentSpecs, desired.ClusterState{RefStates: sim.Contents, Retained: sim.retained, OrphanedReplicas: sim.runningPods})
	sim.revisionPlan = history.Plan{}
	keepJobs := map[string]bool{}
	if sim.Spec != nil {
		sim.revisionPlan = history.NewPlan(desired.RevisionName(sim.Owner, sim.Spec.Hash), sim.revisions, sim.RevisionLimit)
		keepJobs = rollout.ProtectedJobSpecs(sim.revisions, sim.revisionPlan.Prune)
	}
	plan, sim.specErr = rollout.NewPlan(rollout.Input{
		Owner: sim.Owner, Components: sim.components, Observed: sim.observed, ProtectedJobs: keepJobs, Retained: sim.retained, DeleteData: sim.DeleteData,
		DatabaseHealth: healthyDatabases(sim.components),
	})
	sim.allSuspended, sim.heldBySuspend = sim.specErr == nil && len(plan.Steps) == 0, plan.PruneSuspended
	return plan, sim.specErr == nil && !sim.allSuspended
}

// healthyDatabases says that a database whose server runs lets its application in.
func healthyDatabases(components []desired.Component) map[string]health.Result {
	out := map[string]health.Result{}
	for _, c := range components {
		if c.Database != nil {
			out[c.Name] = health.Result{Status: health.Healthy}
		}
	}
	return out
}

// recordWaits keeps what waits for what.
func (sim *simulator) recordWaits(plan rollout.Plan) {
	for _, s := range plan.Steps {
		switch {
		case len(s.WaitsFor) > 0:
			sim.waits[s.Component] = append(sim.waits[s.Component], waitRecord{round: sim.current.round, components: s.WaitsFor})
			sim.problems[s.Component] = "waits for " + joinNames(s.WaitsFor)
		case s.PreviousRun != nil:
			sim.waits[s.Component] = append(sim.waits[s.Component], waitRecord{round: sim.current.round})
		}
		if s.Data != nil && s.Data.Health != nil && s.Data.Health.Status == "Degraded" {
			sim.problems[s.Component] = s.Data.Health.Message
		}
	}
	for _, k := range plan.PendingRemovals {
		sim.pendingRemovals[k.Component] = waitRecord{round: sim.current.round, reason: k.Message}
		sim.problems[k.Component] = k.Message
	}
}

// result compares what is there now with what was there before.
func (sim *simulator) result() *Result {
	r := &Result{SpecErr: sim.specErr, AllSuspended: sim.allSuspended, HeldBySuspend: sim.heldBySuspend, Components: sim.components,
		Objects: map[desired.ID]*ObjectResult{}, Problems: sim.problems}
	entry := func(id desired.ID) *ObjectResult {
		o := r.Objects[id]
		if o == nil {
			o = &ObjectResult{ID: id, Pass: sim.lastWrite[id].pass, Recreated: sim.recreated[id]}
			r.Objects[id] = o
		}
		return o
	}
	before, after := sim.allObjects(sim.Observed, sim.Retained, sim.Revisions), sim.allObjects(sim.observed, sim.retained, sim.revisions)
	for id, obj := range before {
		entry(id).Before = obj
	}
	for id, obj := range after {
		o := entry(id)
		o.After = obj
		if o.Before == nil && sim.Unowned[id] != nil { // it was taken over
			o.Before = sim.Unowned[id]
		}
	}
	for id, err := range sim.rejections {
		entry(id).Rejected = err
	}
	for _, o := range r.Objects {
		sim.attribute(o)
	}
	return r
}

// attribute says whose an outcome is and what it waits for.
func (sim *simulator) attribute(o *ObjectResult) {
	lastWrite := sim.lastWrite[o.ID]
	for _, obj := range []rollout.Object{o.Before, o.After} {
		if obj != nil && obj.GetLabels()[appsapi.LabelComponent] != "" {
			o.Component = obj.GetLabels()[appsapi.LabelComponent]
		}
	}
	for i := range sim.components {
		for _, child := range sim.components[i].Children {
			if child.ID == o.ID {
				o.Component = sim.components[i].Name
			}
		}
	}
	if o.After == nil {
		if s, ok := sim.pendingRemovals[o.Component]; ok && s.round < lastWrite.round {
			o.PendingReason = s.reason
		}
		return
	}
	for _, w := range sim.waits[o.Component] {
		if w.round < lastWrite.round || o.Pass == 0 {
			o.WaitsFor = union(o.WaitsFor, w.components)
		}
	}
	if o.Pass == 0 && o.Before != nil {
		o.WaitsFor = nil // nothing is written to it at all
	}
}

// allObjects is all that there is, by name.
func (sim *simulator) allObjects(observed rollout.Observed, retained []desired.RetainedObject, revisions []*appsv1.ControllerRevision) map[desired.ID]rollout.Object {
	all := map[desired.ID]rollout.Object{}
	for id, obj := range observed {
		if metav1.IsControlledBy(obj, &metav1.ObjectMeta{UID: sim.Owner.UID}) {
			all[id] = obj
		}
	}
	for _, k := range retained {
		all[k.ID] = retainedObject(k)
	}
	for _, r := range revisions {
		all[desired.ID{Kind: desired.KindRevision, Name: r.Name}] = r
	}
	return all
}

func retainedObject(k desired.RetainedObject) rollout.Object {
	if k.Claim != nil {
		return k.Claim
	}
	if obj, ok := k.Object.(rollout.Object); ok {
		return obj
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: k.Name, Labels: k.GetLabels(), Annotations: k.GetAnnotations()}}
}
