package engine

import (
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

const removedChange apply.Change = "Removed"

// change is one accepted write.
type change struct {
	component string
	child     desired.ID
	what      apply.Change
}

// outcome is what became of a plan.
type outcome struct {
	seen    rollout.Seen // with the answers to our writes
	changes []change
	errors  map[desired.ID]error
	failed  error // nothing could be seen
	wait    time.Duration
	fights  []desired.ID
}

func (o *outcome) add(component string, id desired.ID, result apply.Result, err error) {
	if result.Object != nil {
		o.seen[id] = result.Object
	}
	if err != nil {
		o.errors[id] = err
	}
	var taken *apply.NameConflict
	if errors.As(err, &taken) {
		// Somebody else's pods are not counted, and their selector is not ours to give to
		// an autoscaler.
		delete(o.seen, id)
	}
	if result.Change != apply.Unchanged {
		o.changes = append(o.changes, change{component, id, result.Change})
	}
	if result.Wait > 0 && (o.wait == 0 || result.Wait < o.wait) {
		o.wait = result.Wait
	}
	if result.Fight {
		o.fights = append(o.fights, id)
	}
}

// err is what the queue must try again; what waits for others is looked at again anyway.
func (o *outcome) err() error {
	errs := []error{o.failed}
	for _, err := range o.errors {
		if !waits(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// waits says whether somebody else must act first.
func waits(err error) bool {
	var taken *apply.NameConflict
	var leaving *apply.Leaving
	return errors.As(err, &taken) || errors.As(err, &leaving)
}

// stale is set when a decision met a world that had moved on.
func (o *outcome) stale() bool {
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
	return false
}

// child returns a child as it is now, or nil.
func (o *outcome) child(id desired.ID) client.Object {
	obj, _ := o.seen[id].(client.Object)
	return obj
}
