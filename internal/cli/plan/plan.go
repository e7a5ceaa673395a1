package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// Plan is what would become of one application.
type Plan struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Exists is false for an application that would be created.
	Exists bool `json:"exists"`
	// SpecChanges is set when the application itself would be another one, whether that has
	// consequences or not.
	SpecChanges bool `json:"specChanges"`
	// Suspended is set when all of it is suspended: nothing is written.
	Suspended bool `json:"suspended,omitempty"`
	// Changes are about every object of the application, in the order in which they happen,
	// those that stay as they are first.
	Changes []Change `json:"changes"`
	// Problems is why components would not get on.
	Problems []Problem `json:"trouble,omitempty"`
	// Notes are what could not be found out, and what that means.
	Notes []string `json:"notes,omitempty"`
}

// Action is what happens to an object.
type Action string

// What happens to an object.
const (
	Unchanged Action = "Unchanged"
	Created   Action = "Created"
	Changed   Action = "Changed"
	Deleted   Action = "Deleted"
	// Recreated objects are deleted and made anew. The pods of a StatefulSet stay meanwhile.
	Recreated Action = "Recreated"
	// Rejected objects cannot be what the manifest wants, and stay as they are.
	Rejected Action = "Refused"
)

// Change is what happens to one object.
type Change struct {
	// Step tells what happens at the same time; 0 is nothing.
	Step      int    `json:"step"`
	Action    Action `json:"action"`
	Component string `json:"component,omitempty"`
	Kind      string `json:"kind"`
	// Name is empty while it cannot be known: that of the first revision of an application.
	Name string `json:"name,omitempty"`
	// Restarts is how many pods are replaced.
	Restarts int32 `json:"restarts,omitempty"`
	// Runs is set for a Job that runs.
	Runs bool `json:"runs,omitempty"`
	// Data is what becomes of data, or of the password to it: New, Grows, Retained (no
	// component has it any more), Found (one has it again) or Deleted, for good.
	Data string `json:"data,omitempty"`
	// WaitsFor are the components that have to be ready first.
	WaitsFor []string `json:"after,omitempty"`
	// BlockedBy says what an object waits for before it goes.
	BlockedBy string `json:"because,omitempty"`
	// Reason is why it is refused, or some of what was wanted of it.
	Reason string `json:"reason,omitempty"`
	// Estimated is set when the API server could not be asked what the object would be: fields
	// that it, or a webhook, would set are missing.
	Estimated bool    `json:"guessed,omitempty"`
	Fields    []Field `json:"fields,omitempty"`
}

// Problem is why a component would not get on.
type Problem struct {
	Component string `json:"component"`
	Message   string `json:"message"`
}

// newPlan plans an application with what is in the cluster.
func newPlan(ctx context.Context, c client.Client, a declaredApp) (Plan, error) {
	before, after, err := dryRunKubectlApply(ctx, c, a)
	if err != nil {
		return Plan{}, redactPassword(err, a)
	}
	obs := &observer{client: c, app: after, live: before, owner: application.Owner(after), specs: application.Components(after), missingKinds: map[schema.GroupVersionKind]bool{}}
	in, err := obs.observe(ctx)
	if err != nil {
		return Plan{}, err
	}
	server := newDryRun(ctx, c, in, obs.missingKinds)
	result, err := simulate.Run(in, server)
	if err != nil {
		return Plan{}, redactPassword(err, a)
	}
	if result.SpecErr != nil {
		return Plan{}, fmt.Errorf("it would be stored, but can never work: %w", result.SpecErr)
	}
	p := Plan{Kind: a.owner.Kind, Namespace: a.owner.Namespace, Name: a.owner.Name, Exists: before != nil, Suspended: result.AllSuspended}
	p.SpecChanges = before == nil || before.GetGeneration() != after.GetGeneration()
	for _, o := range result.Objects {
		change, err := newChange(o, server.estimated[o.ID])
		if err != nil {
			return Plan{}, err
		}
		if before == nil && o.ID.Kind == desired.KindRevision {
			change.Name = "" // made of the UID, which the API server has yet to choose
		}
		p.Changes = append(p.Changes, change)
	}
	p.numberSteps()
	slices.SortFunc(p.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Component, b.Component), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	for component, message := range result.Problems {
		p.Problems = append(p.Problems, Problem{component, message})
	}
	slices.SortFunc(p.Problems, func(a, b Problem) int { return cmp.Compare(a.Component, b.Component) })
	p.Notes = obs.notes
	if before != nil && before.GetAnnotations()[corev1.LastAppliedConfigAnnotation] == "" {
		p.Notes = append(p.Notes, "It was not written by kubectl apply, which would therefore leave alone what the manifest does not mention.")
	}
	if result.HeldBySuspend {
		p.Notes = append(p.Notes, "What left the spec stays for as long as all of it is suspended.")
	}
	return p, nil
}

// numberSteps numbers the passes that wrote something.
func (p *Plan) numberSteps() {
	var passes []int
	for _, c := range p.Changes {
		passes = append(passes, c.Step)
	}
	slices.Sort(passes)
	passes = slices.DeleteFunc(slices.Compact(passes), func(pass int) bool { return pass == 0 })
	for i := range p.Changes {
		p.Changes[i].Step = slices.Index(passes, p.Changes[i].Step) + 1
	}
}

// hasChanges says whether anything would change.
func (p Plan) hasChanges() bool {
	return p.SpecChanges || slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action != Unchanged && c.Action != Rejected })
}

// rejection is the error of a plan that does not lead to what the manifest says.
func (p Plan) rejection() error {
	rejected := 0
	for _, c := range p.Changes {
		if c.Reason != "" {
			rejected++
		}
	}
	if rejected+len(p.Problems) == 0 {
		return nil
	}
	return errors.New(p.title() + " would not become what the manifest says; see what is refused above")
}

func (p Plan) title() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

// revisionSpec is what the operator remembers of an application; nil is nothing.
func revisionSpec(app application.Application) (*history.Spec, int, error) {
	var spec any
	var limit int32
	switch o := app.(type) {
	case *appsapi.AppStack:
		spec, limit = appkind.AppStackRevisionSpec(o)
	case *appsapi.CloudManager:
		spec, limit = appkind.CloudManagerRevisionSpec(o)
	default:
		return nil, 0, nil
	}
	s, err := history.Encode(spec)
	return &s, int(limit), err
}

// deletesData says whether data goes with what it belongs to.
func deletesData(app application.Application) bool {
	switch o := app.(type) {
	case *appsapi.AppStack:
		return o.Spec.DeletionPolicy == appsapi.DeletionDelete
	case *appsapi.CloudManager:
		return o.Spec.DeletionPolicy == appsapi.DeletionDelete
	}
	return false
}
