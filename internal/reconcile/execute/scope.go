package execute

import (
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Scope is one reconcile of one application: the observed state, the plan and its result.
type Scope struct {
	App   Application
	Owner desired.Owner

	Observed
	// Plan is empty if SpecErr is set, and if the whole application is suspended.
	Plan    rollout.Plan
	SpecErr error
	Result
}

// Observed is the state that a plan is based on. It is read once per reconcile.
type Observed struct {
	Components []desired.Component
	// Children are updated with the responses to our writes.
	Children rollout.Observed
	Retained []desired.RetainedObject
	// UnusedRetained is the data that no component uses and that is not about to be deleted.
	UnusedRetained []desired.RetainedObject
	Spec           revision.Encoded
	History        revision.Plan
	// MissingRefs are the ConfigMaps and Secrets that volumes of a component refer to and that do
	// not exist.
	MissingRefs map[string][]desired.Ref
	// DatabaseHealth, ServerVersions and StartedImages are keyed by component. A server counts as
	// started as soon as its container runs, because it may write to the volume.
	DatabaseHealth map[string]health.Result
	ServerVersions map[string]string
	StartedImages  map[string]string
	// BindingVersions are the resourceVersions of binding Secrets.
	BindingVersions map[string]string
	// RequeueAt is the latest time of the next reconcile, for example for a deadline or a probe.
	RequeueAt time.Time
	// Transient is set while the observed state is expected to change soon; the status does not
	// report that state.
	Transient bool

	// retainedVerified is set once the API server has confirmed Retained.
	retainedVerified bool
	// lostOwnership are revisions, and Jobs of revisions, that lost their owner metadata. Because
	// these objects are not applied, saveRevision restores the metadata.
	lostOwnership []client.Object
	// retainedJobs are the spec hashes of the jobs of all stored revisions.
	retainedJobs map[string]bool
}

// Result is the outcome of a plan.
type Result struct {
	Changes   []Change
	ChildErrs map[desired.ID]error
	// ObserveErr is set if the state could not be read. Then nothing was written.
	ObserveErr error
	// ObjectErr concerns the application itself or its revisions.
	ObjectErr error
	// PlainPasswords are passwords from the spec that were copied into a Secret.
	PlainPasswords []PlainPassword
	// DriftCorrections are the corrections to report now.
	DriftCorrections []appsapi.DriftCorrection
	// RequeueAfter is when to retry a repair that is rate limited.
	RequeueAfter time.Duration
	// Contended are the children that another writer keeps changing.
	Contended      map[desired.ID]bool
	NewlyContended []desired.ID
	// TakenOver are fields of other managers that were removed with permission.
	TakenOver []TakenOver
	// DesiredGenerations has the DesiredGeneration of the last apply of each child, see apply.Result.
	DesiredGenerations map[desired.ID]int64

	// prunedRevisions are about to be deleted, so they protect no job.
	prunedRevisions map[string]bool
}

// Change is one accepted write.
type Change struct {
	Component string
	Child     desired.ID
	Action    apply.Action
	// Fields are the changed fields, and Refs the ConfigMaps and Secrets with new content.
	Fields []objdiff.FieldChange
	Refs   []desired.Ref
	// DriftManagers caused the drift that was corrected, if known.
	DriftManagers []string
}

// TakenOver are fields of one child that belonged to other managers.
type TakenOver struct {
	Component string
	Child     desired.ID
	Fields    []fieldmanager.ForeignField
}

// Actions in addition to those of package apply.
const (
	Removed  apply.Action = "Removed"
	Retained apply.Action = "Retained"
	Replaced apply.Action = "Replaced"
)

// PlainPassword is a password that the spec contains in plain text.
type PlainPassword struct{ Component, Secret, Key string }

// NewScope returns the scope of a reconcile that has observed nothing yet.
func NewScope(app Application, owner desired.Owner) *Scope {
	return &Scope{App: app, Owner: owner,
		Observed: Observed{Children: rollout.Observed{}},
		Result: Result{
			ChildErrs: map[desired.ID]error{}, Contended: map[desired.ID]bool{},
			DesiredGenerations: map[desired.ID]int64{}, prunedRevisions: map[string]bool{},
		},
	}
}

// Child returns the current state of a child, or nil.
func (s *Scope) Child(id desired.ID) client.Object {
	obj, _ := s.Children[id].(client.Object)
	return obj
}

// Step returns the planned step of a component.
func (s *Scope) Step(component string) rollout.Step {
	for _, step := range s.Plan.Steps {
		if step.Component == component {
			return step
		}
	}
	return rollout.Step{}
}

// HasWorkload reports whether an object is the workload of a component of the spec.
func (o *Observed) HasWorkload(id desired.ID) bool {
	return slices.ContainsFunc(o.Components, func(c desired.Component) bool { return c.Workload == id })
}

func (o *Observed) component(name string) desired.Component {
	return o.Components[slices.IndexFunc(o.Components, func(c desired.Component) bool { return c.Name == name })]
}

// RequeueNoLaterThan requeues the application at the given time, unless it is requeued earlier.
func (o *Observed) RequeueNoLaterThan(t time.Time) {
	if !t.IsZero() && (o.RequeueAt.IsZero() || t.Before(o.RequeueAt)) {
		o.RequeueAt = t
	}
}

// MarkTransient keeps the observed state out of the status until the given time.
func (o *Observed) MarkTransient(until, now time.Time) {
	if now.Before(until) {
		o.Transient = true
		o.RequeueNoLaterThan(until)
	}
}

// addChange records an accepted write.
func (s *Scope) addChange(component string, child desired.ID, action apply.Action) {
	s.Changes = append(s.Changes, Change{Component: component, Child: child, Action: action})
}

// RecordApply records the outcome of applying one child.
func (s *Scope) RecordApply(component string, id desired.ID, applied apply.Result, err error) {
	if applied.Object != nil {
		s.Children[id] = applied.Object
	}
	s.DesiredGenerations[id] = applied.DesiredGeneration
	if err != nil {
		s.ChildErrs[id] = err
	}
	if isNameConflict(err) {
		// The status must not report the pods and the selector of a workload of another owner.
		delete(s.Children, id)
	}
	if applied.Action != apply.Unchanged {
		s.Changes = append(s.Changes, Change{component, id, applied.Action, applied.Fields, applied.Refs, applied.DriftManagers})
	}
	if len(applied.TakenOver) > 0 {
		s.TakenOver = append(s.TakenOver, TakenOver{component, id, applied.TakenOver})
	}
	for _, wait := range []time.Duration{applied.RequeueAfter, applied.ContentionRemaining} {
		if wait > 0 && (s.RequeueAfter == 0 || wait < s.RequeueAfter) {
			s.RequeueAfter = wait
		}
	}
	if applied.ContentionRemaining > 0 {
		s.Contended[id] = true
	}
	if applied.ContentionStarted {
		s.NewlyContended = append(s.NewlyContended, id)
	}
}

// IsNoop reports whether nothing was written and nothing failed.
func (s *Scope) IsNoop() bool {
	return len(s.Changes)+len(s.PlainPasswords)+len(s.NewlyContended)+len(s.ChildErrs) == 0 && s.SpecErr == nil && s.ObserveErr == nil && s.ObjectErr == nil
}

// writeErrs returns all errors of writes, in no particular order.
func (s *Scope) writeErrs() []error {
	return append(slices.Collect(maps.Values(s.ChildErrs)), s.ObjectErr)
}

// IsBlocked reports whether the application waits for a change that is not watched.
func (s *Scope) IsBlocked() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s.ChildErrs)), IsBlockedByOthers) ||
		slices.ContainsFunc(s.Plan.Steps, func(step rollout.Step) bool {
			return step.Data != nil && step.Data.Health != nil && step.Data.Health.Reason == appsapi.ReasonDataConflict
		})
}
