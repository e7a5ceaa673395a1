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
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// What becomes of children and data beside being applied.
const (
	removedChange  apply.Action = "Removed"
	retainedChange apply.Action = "Retained"
)

// change is one accepted write.
type change struct {
	component string
	child     desired.ID
	action    apply.Action
}

// result is what became of a plan.
type result struct {
	namespace      string
	plan           rollout.Plan
	specErr        error            // no plan can be made
	children       rollout.Observed // with the answers to our writes
	changes        []change
	events         []eventRecord // beside what follows from the changes
	childErrs      map[desired.ID]error
	observeErr     error // nothing could be seen
	objectErr      error // about the object itself or its history
	requeueAfter   time.Duration
	newlyContended []desired.ID
	// desiredGenerations are the generations in which our wishes are, see apply.Result.
	desiredGenerations map[desired.ID]int64
	// prunedRevisions are the revisions that are not kept, and so keep no job.
	prunedRevisions map[string]bool
	// databaseHealth are what servers say, by component.
	databaseHealth map[string]health.Result
	// contended are the children that somebody else keeps changing.
	contended map[desired.ID]bool
}

func newResult(namespace string, children rollout.Observed) result {
	if children == nil {
		children = rollout.Observed{}
	}
	return result{
		namespace: namespace, children: children,
		childErrs: map[desired.ID]error{}, desiredGenerations: map[desired.ID]int64{}, contended: map[desired.ID]bool{}, prunedRevisions: map[string]bool{},
	}
}

func (res *result) recordApply(component string, id desired.ID, applyResult apply.Result, err error) {
	if applyResult.Object != nil {
		res.children[id] = applyResult.Object
	}
	res.desiredGenerations[id] = applyResult.DesiredGeneration
	if err != nil {
		res.childErrs[id] = err
	}
	var nameConflict *ownership.NameConflict
	if errors.As(err, &nameConflict) {
		// Somebody else's pods are not counted, and their selector is not ours to give to
		// an autoscaler.
		delete(res.children, id)
	}
	if applyResult.Action != apply.Unchanged {
		res.changes = append(res.changes, change{component, id, applyResult.Action})
	}
	for _, wait := range []time.Duration{applyResult.RequeueAfter, applyResult.ContentionRemaining} {
		if wait > 0 && (res.requeueAfter == 0 || wait < res.requeueAfter) {
			res.requeueAfter = wait
		}
	}
	if applyResult.ContentionRemaining > 0 {
		res.contended[id] = true
	}
	if applyResult.ContentionStarted {
		res.newlyContended = append(res.newlyContended, id)
	}
}

// err is what the queue must try again; what waits for others is looked at again anyway.
func (res *result) err() error {
	errs := []error{res.observeErr}
	if !errors.Is(res.objectErr, apply.ErrStale) && cachedRejection(res.objectErr) == nil {
		errs = append(errs, res.objectErr)
	}
	for _, err := range res.childErrs {
		if !isBlockedByOthers(err) && !errors.Is(err, apply.ErrStale) && cachedRejection(err) == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// isNoop says whether nothing was done, and nothing went wrong.
func (res *result) isNoop() bool {
	return len(res.changes)+len(res.events)+len(res.newlyContended)+len(res.childErrs) == 0 && res.specErr == nil && res.observeErr == nil && res.objectErr == nil
}

// retryRejectedAfter is when to ask again what was refused before; 0 means that nothing was.
func (res *result) retryRejectedAfter() time.Duration {
	var soonest time.Duration
	for _, err := range append(slices.Collect(maps.Values(res.childErrs)), res.objectErr) {
		if r := cachedRejection(err); r != nil && (soonest == 0 || r.RetryAfter < soonest) {
			soonest = r.RetryAfter
		}
	}
	return soonest
}

// cachedRejection is the answer to an earlier try, for as long as there is no other.
func cachedRejection(err error) *apply.Rejected {
	var rejection *apply.Rejected
	if errors.As(err, &rejection) {
		return rejection
	}
	return nil
}

// isBlockedByOthers says whether somebody else must act first.
func isBlockedByOthers(err error) bool {
	var nameConflict *ownership.NameConflict
	var terminating *ownership.Terminating
	var unknownKind *ownership.UnknownKind
	return errors.As(err, &nameConflict) || errors.As(err, &terminating) || errors.As(err, &unknownKind) || isMissingSource(err) || isLostCredential(err)
}

// isStale is set when a decision met a world that had moved on.
func (res *result) isStale() bool {
	if errors.Is(res.objectErr, apply.ErrStale) {
		return true
	}
	for _, err := range res.childErrs {
		if errors.Is(err, apply.ErrStale) {
			return true
		}
	}
	return false
}

// isBlocked says whether something waits for others, whose acting no watch of ours shows.
func (res *result) isBlocked() bool {
	for _, err := range res.childErrs {
		if isBlockedByOthers(err) {
			return true
		}
	}
	return slices.ContainsFunc(res.plan.Steps, func(s rollout.Step) bool {
		return s.Data != nil && s.Data.Health != nil && s.Data.Health.Reason == appsapi.ReasonDataConflict
	})
}

// step is what was planned for a component.
func (res *result) step(component string) rollout.Step {
	for _, s := range res.plan.Steps {
		if s.Component == component {
			return s
		}
	}
	return rollout.Step{}
}

// child returns a child as it is now, or nil.
func (res *result) child(id desired.ID) client.Object {
	obj, _ := res.children[id].(client.Object)
	return obj
}
