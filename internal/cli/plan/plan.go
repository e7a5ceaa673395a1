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
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/kinds"
	"github.com/holdfast-dev/holdfast/internal/rehearsal"
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
	// Trouble is why components would not get on.
	Trouble []Trouble `json:"trouble,omitempty"`
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
	// Refused objects cannot be what the manifest wants, and stay as they are.
	Refused Action = "Refused"
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
	// After are the components that have to be ready first.
	After []string `json:"after,omitempty"`
	// Because says what an object waits for before it goes.
	Because string `json:"because,omitempty"`
	// Reason is why it is refused, or some of what was wanted of it.
	Reason string `json:"reason,omitempty"`
	// Guessed is set when the API server could not be asked what the object would be: fields
	// that it, or a webhook, would set are missing.
	Guessed bool    `json:"guessed,omitempty"`
	Fields  []Field `json:"fields,omitempty"`
}

// Trouble is why a component would not get on.
type Trouble struct {
	Component string `json:"component"`
	Message   string `json:"message"`
}

// planOf plans an application with what is in the cluster.
func planOf(ctx context.Context, c client.Client, a declared) (Plan, error) {
	before, after, err := stored(ctx, c, a)
	if err != nil {
		return Plan{}, redacted(err, a)
	}
	l := &looker{client: c, app: after, live: before, owner: application.Owner(after), specs: application.Components(after), unknown: map[schema.GroupVersionKind]bool{}}
	in, err := l.look(ctx)
	if err != nil {
		return Plan{}, err
	}
	server := newDryRun(ctx, c, in, l.unknown)
	result, err := rehearsal.Play(in, server)
	if err != nil {
		return Plan{}, redacted(err, a)
	}
	if result.Invalid != nil {
		return Plan{}, fmt.Errorf("it would be stored, but can never work: %w", result.Invalid)
	}
	p := Plan{Kind: a.owner.Kind, Namespace: a.owner.Namespace, Name: a.owner.Name, Exists: before != nil, Suspended: result.HandsOff}
	p.SpecChanges = before == nil || before.GetGeneration() != after.GetGeneration()
	for _, o := range result.Outcomes {
		change, err := changeOf(o, server.guessed[o.ID])
		if err != nil {
			return Plan{}, err
		}
		if before == nil && o.ID.Kind == desired.KindRevision {
			change.Name = "" // made of the UID, which the API server has yet to choose
		}
		p.Changes = append(p.Changes, change)
	}
	p.countSteps()
	slices.SortFunc(p.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.Component, b.Component), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	for component, message := range result.Trouble {
		p.Trouble = append(p.Trouble, Trouble{component, message})
	}
	slices.SortFunc(p.Trouble, func(a, b Trouble) int { return cmp.Compare(a.Component, b.Component) })
	p.Notes = l.notes
	if before != nil && before.GetAnnotations()[corev1.LastAppliedConfigAnnotation] == "" {
		p.Notes = append(p.Notes, "It was not written by kubectl apply, which would therefore leave alone what the manifest does not mention.")
	}
	if result.Held {
		p.Notes = append(p.Notes, "What left the spec stays for as long as all of it is suspended.")
	}
	return p, nil
}

// countSteps numbers the passes that wrote something.
func (p *Plan) countSteps() {
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

// changes says whether anything would change.
func (p Plan) changes() bool {
	return p.SpecChanges || slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action != Unchanged && c.Action != Refused })
}

// refusal is the error of a plan that does not lead to what the manifest says.
func (p Plan) refusal() error {
	refused := 0
	for _, c := range p.Changes {
		if c.Reason != "" {
			refused++
		}
	}
	if refused+len(p.Trouble) == 0 {
		return nil
	}
	return errors.New(p.title() + " would not become what the manifest says; see what is refused above")
}

func (p Plan) title() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

// remembered is what the operator remembers of an application; nil is nothing.
func remembered(app application.Application) (*history.Spec, int, error) {
	var spec any
	var limit int32
	switch o := app.(type) {
	case *appsapi.AppStack:
		spec, limit = kinds.AppStackHistory(o)
	case *appsapi.CloudManager:
		spec, limit = kinds.CloudManagerHistory(o)
	default:
		return nil, 0, nil
	}
	s, err := history.Of(spec)
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
