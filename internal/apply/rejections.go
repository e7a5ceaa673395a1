package apply

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// What the API server refuses is tried again ever more rarely, from initialBackoff on. The pace
// is that of the child: whatever else happens to its application is no reason to ask again.
const (
	initialBackoff    = 20 * time.Millisecond
	defaultMaxBackoff = 5 * time.Minute
)

// Rejected is what the API server answered before; it is not asked again yet.
type Rejected struct {
	// Err is the answer.
	Err error
	// RetryAfter is how long it is not asked again.
	RetryAfter time.Duration
}

func (r *Rejected) Error() string { return r.Err.Error() }

// Unwrap returns the answer.
func (r *Rejected) Unwrap() error { return r.Err }

// IsRejected says whether the API server heard us and said no, as opposed to not hearing us
// or being in trouble itself.
func IsRejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if strings.Contains(status.Status().Message, "cannot find RESTMapping") {
		return false // the API server has not noticed yet that our own kind exists
	}
	return status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

// rejection is an answer that has to be taken for one until then.
type rejection struct {
	fingerprint string
	uid         types.UID
	generation  int64
	err         error
	backoff     time.Duration
	retryAt     time.Time
}

// matches says whether the same wish about the same object was refused. Another wish, or an
// object that somebody changed, is worth a new question.
func (r *rejection) matches(fingerprint string, live client.Object) bool {
	if r == nil || r.fingerprint != fingerprint {
		return false
	}
	if live == nil {
		return r.uid == ""
	}
	return r.uid == live.GetUID() && r.generation == live.GetGeneration()
}

// pendingRejection returns the last answer if it is too soon to ask again; live is nil for a child
// that does not exist.
func (cc *childCache) pendingRejection(k key, owner types.UID, fingerprint string, live client.Object, now time.Time) error {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	r := cc.entry(k, owner).rejection
	if !r.matches(fingerprint, live) || !now.Before(r.retryAt) {
		return nil
	}
	return &Rejected{Err: r.err, RetryAfter: r.retryAt.Sub(now)}
}

// recordWriteResult notes the answer to a write; anything but a refusal ends what was before.
func (cc *childCache) recordWriteResult(k key, owner types.UID, fingerprint string, live client.Object, err error, now time.Time, maxBackoff time.Duration) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	e := cc.entry(k, owner)
	e.createOutcomeUnknown = e.createOutcomeUnknown || live == nil && outcomeUnknown(err)
	if !IsRejected(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || uidMismatch(err) {
		e.rejection = nil
		return
	}
	backoff := initialBackoff
	if e.rejection.matches(fingerprint, live) {
		backoff = min(2*e.rejection.backoff, maxBackoff)
	}
	e.rejection = &rejection{fingerprint: fingerprint, err: err, backoff: backoff, retryAt: now.Add(backoff)}
	if live != nil {
		e.rejection.uid, e.rejection.generation = live.GetUID(), live.GetGeneration()
	}
}

// outcomeUnknown says whether a write may have been carried out although it failed.
func outcomeUnknown(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= 500
	}
	var nameConflict *ownership.NameConflict
	var terminating *ownership.Terminating
	return err != nil && !errors.Is(err, ErrStale) && !errors.As(err, &nameConflict) && !errors.As(err, &terminating)
}
