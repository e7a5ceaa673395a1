package simulate

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Result is the outcome of a simulation.
type Result struct {
	// SpecErr is set if the spec is invalid. No objects are written then.
	SpecErr error
	// AllSuspended is set if every component is suspended, HeldBySuspend if a removed component is kept
	// because of that.
	AllSuspended, HeldBySuspend bool
	// Components are the components of the spec.
	Components []desired.Component
	// Objects has an entry for every object that exists before or after, or is rejected.
	Objects map[desired.ID]*ObjectResult
	// Problems are the reasons why components do not become ready, by component.
	Problems map[string]string
}

// ObjectResult is the outcome for one object.
type ObjectResult struct {
	ID        desired.ID
	Component string
	// Before and After are the states before and after the simulation, nil if the object does not exist.
	Before, After rollout.Object
	// Recreated is set if the object is deleted and created again. The pods of a StatefulSet are kept.
	Recreated bool
	// Pass is the last pass that wrote the object, starting at 1. 0: not written.
	Pass int
	// WaitsFor are the components that must be ready first.
	WaitsFor []string
	// PendingReason is the reason why the deletion of a removed object waits.
	PendingReason string
	// Rejected is the error that prevents the object from being applied.
	Rejected error
}

// result compares the copy with the input.
func (sim *simulator) result() *Result {
	s := sim.last
	r := &Result{SpecErr: s.SpecErr, AllSuspended: s.SpecErr == nil && len(s.Plan.Steps) == 0, HeldBySuspend: s.Plan.PruneSuspended, Components: s.Components,
		Objects: map[desired.ID]*ObjectResult{}, Problems: sim.problems}
	entry := func(id desired.ID) *ObjectResult {
		o := r.Objects[id]
		if o == nil {
			o = &ObjectResult{ID: id, Pass: sim.lastWrite[id].pass, Recreated: sim.recreated[id]}
			r.Objects[id] = o
		}
		return o
	}
	for id, obj := range sim.ownedObjects(sim.original, sim.first.Retained) {
		entry(id).Before = obj
	}
	for id, obj := range sim.ownedObjects(sim.objects, s.Retained) {
		o := entry(id)
		o.After = obj
		if o.Before == nil && sim.adopted[id] != nil {
			o.Before = sim.adopted[id]
		}
	}
	for id, err := range s.ChildErrs {
		if err := rejection(err); err != nil {
			entry(id).Rejected = err
		}
	}
	for _, o := range r.Objects {
		sim.attribute(o)
	}
	return r
}

// ownedObjects returns the objects of the application: controlled children, revisions and data.
func (sim *simulator) ownedObjects(objects map[desired.ID]client.Object, retained []desired.RetainedObject) map[desired.ID]rollout.Object {
	owner := sim.executor.OwnerOf(sim.app)
	owned := map[desired.ID]rollout.Object{}
	for id, obj := range objects {
		revision, isRevision := obj.(*appsv1.ControllerRevision)
		if metav1.IsControlledBy(obj, &metav1.ObjectMeta{UID: owner.UID}) || isRevision && ownership.BelongsTo(owner, revision) {
			owned[id] = obj
		}
	}
	for _, k := range retained {
		if obj := objects[k.ID]; obj != nil {
			owned[k.ID] = obj
		}
	}
	return owned
}

// attribute sets the component of an object and the components that it waits for.
func (sim *simulator) attribute(o *ObjectResult) {
	for _, obj := range []rollout.Object{o.Before, o.After} {
		if obj != nil && obj.GetLabels()[appsapi.LabelComponent] != "" {
			o.Component = obj.GetLabels()[appsapi.LabelComponent]
		}
	}
	for _, c := range sim.last.Components {
		if slices.ContainsFunc(c.Children, func(child desired.Child) bool { return child.ID == o.ID }) {
			o.Component = c.Name
		}
	}
	written := sim.lastWrite[o.ID]
	if o.After == nil {
		if pending, ok := sim.pendingRemovals[o.Component]; ok && pending.round < written.round {
			o.PendingReason = pending.reason
		}
		return
	}
	if o.Pass == 0 && o.Before != nil {
		return // not written
	}
	for _, w := range sim.waits[o.Component] {
		if w.round < written.round || o.Pass == 0 {
			for _, name := range w.components {
				if !slices.Contains(o.WaitsFor, name) {
					o.WaitsFor = append(o.WaitsFor, name)
				}
			}
		}
	}
}
