package authz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Errors of this package wrap one of these, contain the next step and never contain a token.
var (
	// ErrNoToken means that the request has no token or a malformed one: 401.
	ErrNoToken = errors.New("no token")
	// ErrInvalidToken means that the API server does not accept the token: 401.
	ErrInvalidToken = errors.New("the token is not valid")
	// ErrReviewFailed means that the API server did not complete a review: 503, and access is denied.
	ErrReviewFailed = errors.New("cannot be checked now")
)

// tokenHint is the next step for callers without a valid token.
const tokenHint = "get one with: kubectl create token SERVICE_ACCOUNT -n NAMESPACE"

func noTokenError(reason string) error {
	return fmt.Errorf("%w: %s; send the header Authorization: Bearer TOKEN, and %s", ErrNoToken, reason, tokenHint)
}

// invalidTokenError omits the message of the API server, which may contain parts of the token.
func invalidTokenError(reason string) error {
	return fmt.Errorf("%w: %s; %s", ErrInvalidToken, reason, tokenHint)
}

// reviewFailedError describes the failure and the next step without quoting the cause: the body of a
// TokenReview contains the token.
func reviewFailedError(subject, review string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %w: %w", subject, ErrReviewFailed, context.Canceled)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s %w: the center is not allowed to create %s; bind the ClusterRole system:auth-delegator to its ServiceAccount",
			subject, ErrReviewFailed, review)
	}
	return fmt.Errorf("%s %w: the API server did not respond to a request for %s (%s); try again in a few seconds",
		subject, ErrReviewFailed, review, safeCause(err))
}

// safeCause returns the part of an error that cannot contain a token: the reason of the API server or the
// network error.
func safeCause(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return network.Error()
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return fmt.Sprintf("%T", err)
}
