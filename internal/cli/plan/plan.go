package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// Plan has the planned changes of one application.
type Plan struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Exists is false if the application would be created.
	Exists bool `json:"exists"`
	// SpecChanges is set if the spec of the application would change, with or without other changes.
	SpecChanges bool `json:"specChanges"`
	// Suspended is set if all components are suspended: no objects are written.
	Suspended bool `json:"suspended,omitempty"`
	// Changes has an entry for each object of the application, in the order of the rollout. Unchanged
	// objects come first.
	Changes []Change `json:"changes"`
	// Problems are the reasons why components would not become ready.
	Problems []Problem `json:"problems,omitempty"`
	// Notes are limitations of the plan, such as missing permissions.
	Notes []string `json:"notes,omitempty"`
}

// Action is the planned action on an object.
type Action string

// Planned actions.
const (
	Unchanged Action = "Unchanged"
	Created   Action = "Created"
	Changed   Action = "Changed"
	Deleted   Action = "Deleted"
	// Recreated objects are deleted and created again. The pods of a StatefulSet are orphaned and adopted.
	Recreated Action = "Recreated"
	// Rejected objects cannot be applied and do not change.
	Rejected Action = "Refused"
)

// Change is the planned change of one object.
type Change struct {
	// Step is the same for changes that happen together. 0: no change.
	Step      int    `json:"step"`
	Action    Action `json:"action"`
	Component string `json:"component,omitempty"`
	Kind      string `json:"kind"`
	// Name is empty if it is not known yet, as for the first revision of an application.
	Name string `json:"name,omitempty"`
	// Restarts is the number of pods that are restarted.
	Restarts int32 `json:"restarts,omitempty"`
	// Runs is set if a Job runs.
	Runs bool `json:"runs,omitempty"`
	// Data is the effect on data or its credentials: New, Grows, Retained (its component was removed),
	// Found (a component reuses it) or Deleted (permanently).
	Data string `json:"data,omitempty"`
	// WaitsFor are the components that must be ready first.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// BlockedBy is the reason why the deletion of an object waits.
	BlockedBy string `json:"blockedBy,omitempty"`
	// Reason is why the object, or a part of its change, is rejected.
	Reason string `json:"reason,omitempty"`
	// Estimated is set if the change was computed without a dry run: fields that the API server or a
	// webhook would set are missing.
	Estimated bool    `json:"estimated,omitempty"`
	Fields    []Field `json:"fields,omitempty"`
}

// Problem is the reason why a component would not become ready.
type Problem struct {
	Component string `json:"component"`
	Message   string `json:"message"`
}

// newPlan plans an application with the state of the cluster.
func newPlan(ctx context.Context, c client.Client, a declaredApp) (Plan, error) {
	applied, err := dryRunKubectlApply(ctx, c, a)
	if err != nil {
		return Plan{}, redactPassword(err, a)
	}
	before, after := applied.before, applied.after
	obs := &observer{client: c, app: after, live: before, owner: appkind.Owner(after), specs: appkind.Components(after)}
	in, err := obs.observe(ctx)
	if err != nil {
		return Plan{}, err
	}
	server := &dryRun{ctx: ctx, client: c, owner: obs.owner, estimated: map[desired.ID]bool{}}
	result, err := simulate.Run(ctx, in, server)
	if err != nil {
		return Plan{}, redactPassword(err, a)
	}
	if result.SpecErr != nil {
		return Plan{}, fmt.Errorf("the API server would accept the spec, but the operator would reject it: %w", result.SpecErr)
	}
	p := Plan{Kind: a.owner.Kind, Namespace: a.owner.Namespace, Name: a.owner.Name, Exists: before != nil, Suspended: result.AllSuspended}
	p.SpecChanges = before == nil || before.GetGeneration() != after.GetGeneration()
	for _, o := range result.Objects {
		change, err := newChange(o, server.estimated[o.ID])
		if err != nil {
			return Plan{}, err
		}
		if before == nil && o.ID.Kind == desired.KindRevision {
			change.Name = "" // contains the UID, which is not known yet
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
	if applied.estimated {
		p.Notes = append(p.Notes, fmt.Sprintf("No permission to change %ss: the plan does not include the validation by the API server.", p.Kind))
	}
	if before != nil && before.GetAnnotations()[corev1.LastAppliedConfigAnnotation] == "" {
		p.Notes = append(p.Notes, "The application was not created by kubectl apply, so fields that the manifest does not contain are not removed.")
	}
	if result.HeldBySuspend {
		p.Notes = append(p.Notes, "Removed components are not deleted while the whole application is suspended.")
	}
	return p, nil
}

// numberSteps numbers the passes that wrote an object, from 1.
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

// hasChanges reports whether the plan has changes.
func (p Plan) hasChanges() bool {
	return p.SpecChanges || slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Action != Unchanged && c.Action != Rejected })
}

// rejection returns an error if the manifest cannot be applied completely.
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
	return errors.New(p.title() + " cannot be applied completely; see the refused changes and problems above")
}

func (p Plan) title() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }
