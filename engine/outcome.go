package engine

import (
	"errors"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// What becomes of children and data beside being applied.
const (
	removedChange  apply.Change = "Removed"
	retainedChange apply.Change = "Retained"
)

// change is one accepted write.
type change struct {
	component string
	child     desired.ID
	what      apply.Change
}

// outcome is what became of a plan.
type outcome struct {
	namespace string
	plan      rollout.Plan
	invalid   error        // no plan can be made
	seen      rollout.Seen // with the answers to our writes
	changes   []change
	told      []occurrence // beside what follows from the changes
	errors    map[desired.ID]error
	failed    error // nothing could be seen
	other     error // about the object itself or its history
	wait      time.Duration
	fights    []desired.ID
	// asked are the generations in which our wishes are, see apply.Result.
	asked map[desired.ID]int64
	// forgets are the revisions that are not kept, and so keep no job.
	forgets map[string]bool
	// databases are what servers say, by component.
	databases map[string]health.Verdict
	// contested are the children that somebody else keeps changing.
	contested map[desired.ID]bool
}

func newOutcome(namespace string, seen rollout.Seen) outcome {
	if seen == nil {
		seen = rollout.Seen{}
	}
	return outcome{
		namespace: namespace, seen: seen,
		errors: map[desired.ID]error{}, asked: map[desired.ID]int64{}, contested: map[desired.ID]bool{}, forgets: map[string]bool{},
	}
}

func (o *outcome) add(component string, id desired.ID, result apply.Result, err error) {
	if result.Object != nil {
		o.seen[id] = result.Object
	}
	o.asked[id] = result.Asked
	if err != nil {
		o.errors[id] = err
	}
	var taken *own.NameConflict
	if errors.As(err, &taken) {
		// Somebody else's pods are not counted, and their selector is not ours to give to
		// an autoscaler.
		delete(o.seen, id)
	}
	if result.Change != apply.Unchanged {
		o.changes = append(o.changes, change{component, id, result.Change})
	}
	for _, wait := range []time.Duration{result.Wait, result.Contested} {
		if wait > 0 && (o.wait == 0 || wait < o.wait) {
			o.wait = wait
		}
	}
	if result.Contested > 0 {
		o.contested[id] = true
	}
	if result.Fight {
		o.fights = append(o.fights, id)
	}
}

// err is what the queue must try again; what waits for others is looked at again anyway.
func (o *outcome) err() error {
	errs := []error{o.failed}
	if !errors.Is(o.other, apply.ErrStale) && refusedBefore(o.other) == nil {
		errs = append(errs, o.other)
	}
	for _, err := range o.errors {
		if !waits(err) && !errors.Is(err, apply.ErrStale) && refusedBefore(err) == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// nothing says whether nothing was done, and nothing went wrong.
func (o *outcome) nothing() bool {
	return len(o.changes)+len(o.told)+len(o.fights)+len(o.errors) == 0 && o.invalid == nil && o.failed == nil && o.other == nil
}

// retry is when to ask again what was refused before; 0 means that nothing was.
func (o *outcome) retry() time.Duration {
	var soonest time.Duration
	for _, err := range append(slices.Collect(maps.Values(o.errors)), o.other) {
		if r := refusedBefore(err); r != nil && (soonest == 0 || r.Wait < soonest) {
			soonest = r.Wait
		}
	}
	return soonest
}

// refusedBefore is the answer to an earlier try, for as long as there is no other.
func refusedBefore(err error) *apply.Refused {
	var before *apply.Refused
	if errors.As(err, &before) {
		return before
	}
	return nil
}

// waits says whether somebody else must act first.
func waits(err error) bool {
	var taken *own.NameConflict
	var leaving *own.Leaving
	var unknown *own.UnknownKind
	return errors.As(err, &taken) || errors.As(err, &leaving) || errors.As(err, &unknown) || isMissing(err) || isLost(err)
}

// stale is set when a decision met a world that had moved on.
func (o *outcome) stale() bool {
	if errors.Is(o.other, apply.ErrStale) {
		return true
	}
	for _, err := range o.errors {
		if errors.Is(err, apply.ErrStale) {
			return true
		}
	}
	return false
}

// blocked says whether something waits for others, whose acting no watch of ours shows.
func (o *outcome) blocked() bool {
	for _, err := range o.errors {
		if waits(err) {
			return true
		}
	}
	return slices.ContainsFunc(o.plan.Steps, func(s rollout.Step) bool {
		return s.Data != nil && s.Data.Verdict != nil && s.Data.Verdict.Reason == appsapi.ReasonDataConflict
	})
}

// step is what was planned for a component.
func (o *outcome) step(component string) rollout.Step {
	for _, s := range o.plan.Steps {
		if s.Component == component {
			return s
		}
	}
	return rollout.Step{}
}

// child returns a child as it is now, or nil.
func (o *outcome) child(id desired.ID) client.Object {
	obj, _ := o.seen[id].(client.Object)
	return obj
}
