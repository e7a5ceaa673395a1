package apply

import (
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// Rejected writes are retried with exponential backoff, starting at initialBackoff. The backoff is
// per child: other events of the application do not cause a retry.
const (
	initialBackoff    = 20 * time.Millisecond
	defaultMaxBackoff = 5 * time.Minute
)

// Rejected is an earlier rejection by the API server; the write is not retried yet.
type Rejected struct {
	// Err is the error of the API server.
	Err error
	// RetryAfter is the time until the next attempt.
	RetryAfter time.Duration
}

func (r *Rejected) Error() string { return r.Err.Error() }

// Unwrap returns the error of the API server.
func (r *Rejected) Unwrap() error { return r.Err }

// IsRejected reports whether the API server rejected a request, as opposed to being unreachable or
// failing itself.
func IsRejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	if strings.Contains(status.Status().Message, "cannot find RESTMapping") {
		return false // the API server does not serve our own kind yet
	}
	return status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

// rejection is a rejected write that is not retried before retryAt.
type rejection struct {
	fingerprint string
	uid         types.UID
	generation  int64
	err         error
	backoff     time.Duration
	retryAt     time.Time
}

// matches reports whether the same configuration was rejected for the same object. Another
// configuration or a changed object is applied without delay.
func (r *rejection) matches(fingerprint string, live client.Object) bool {
	if r == nil || r.fingerprint != fingerprint {
		return false
	}
	if live == nil {
		return r.uid == ""
	}
	return r.uid == live.GetUID() && r.generation == live.GetGeneration()
}

// pendingRejection returns the last rejection if it is too early to retry; live is nil for a child
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

// recordWriteResult records the result of a write; anything but a rejection resets the backoff.
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

// outcomeUnknown reports whether a failed write may have been executed.
func outcomeUnknown(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= 500
	}
	var nameConflict *ownership.NameConflict
	var fieldConflict *fieldmanager.FieldConflict
	var terminating *ownership.Terminating
	return err != nil && !errors.Is(err, ErrStale) && !errors.As(err, &nameConflict) && !errors.As(err, &fieldConflict) && !errors.As(err, &terminating)
}
