package execute

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// RetryErr returns the errors that the queue must retry. Stale state, cached rejections and
// conflicts with other owners are retried with separate timers.
func (s *Scope) RetryErr() error {
	errs := []error{s.ObserveErr}
	if !errors.Is(s.ObjectErr, apply.ErrStale) && CachedRejection(s.ObjectErr) == nil {
		errs = append(errs, s.ObjectErr)
	}
	for _, err := range s.ChildErrs {
		if !IsBlockedByOthers(err) && !errors.Is(err, apply.ErrStale) && CachedRejection(err) == nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// IsStale reports whether a decision was based on outdated state.
func (s *Scope) IsStale() bool {
	return slices.ContainsFunc(s.writeErrs(), func(err error) bool { return errors.Is(err, apply.ErrStale) })
}

// RetryRejectedAfter returns when to retry rejected writes; 0 if none were rejected.
func (s *Scope) RetryRejectedAfter() time.Duration {
	var soonest time.Duration
	for _, err := range s.writeErrs() {
		if r := CachedRejection(err); r != nil && (soonest == 0 || r.RetryAfter < soonest) {
			soonest = r.RetryAfter
		}
	}
	return soonest
}

// CachedRejection returns the earlier rejection that an error contains, or nil.
func CachedRejection(err error) *apply.Rejected {
	var rejection *apply.Rejected
	if errors.As(err, &rejection) {
		return rejection
	}
	return nil
}

// IsBlockedByOthers reports whether a user or another controller must act first.
func IsBlockedByOthers(err error) bool {
	var terminating *ownership.Terminating
	var unknownKind *ownership.UnknownKind
	return isNameConflict(err) || IsFieldConflict(err) || errors.As(err, &terminating) || errors.As(err, &unknownKind) || IsMissingSource(err) || IsLostCredential(err)
}

func isNameConflict(err error) bool {
	var conflict *ownership.NameConflict
	return errors.As(err, &conflict)
}

// IsFieldConflict reports whether another field manager has set a field that conflicts with a declared field.
func IsFieldConflict(err error) bool {
	var conflict *fieldmanager.FieldConflict
	return errors.As(err, &conflict)
}

// IsMissingSource reports whether a Secret that a credential is copied from does not exist.
func IsMissingSource(err error) bool {
	var missing *ownership.CredentialSourceError
	return errors.As(err, &missing)
}

// IsLostCredential reports whether the password of existing data is lost.
func IsLostCredential(err error) bool {
	var lost *ownership.LostCredential
	return errors.As(err, &lost)
}

// ResizeRejectedError means that the API server rejected a new size of a claim.
type ResizeRejectedError struct{ error }

// Unwrap returns the error of the API server.
func (e ResizeRejectedError) Unwrap() error { return e.error }

func asResizeRejected(err error) error {
	if apply.IsRejected(err) || CachedRejection(err) != nil {
		return ResizeRejectedError{err}
	}
	return err
}
