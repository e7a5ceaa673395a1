package authz

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What can be wrong with a caller. Errors of this package wrap one of them, say what to do, and
// never contain a token.
var (
	// ErrNoToken means that the request has no token, or none that can be read: 401.
	ErrNoToken = errors.New("no token")
	// ErrInvalidToken means that the API server does not accept the token: 401.
	ErrInvalidToken = errors.New("the token is not valid")
	// ErrReviewFailed means that the API server did not say: 503, and nothing is shown.
	ErrReviewFailed = errors.New("cannot be checked now")
)

// tokenHint is the next step of everybody without a valid token.
const tokenHint = "get one with: kubectl create token SERVICE_ACCOUNT -n NAMESPACE"

func noTokenError(reason string) error {
	return fmt.Errorf("%w: %s; send the header Authorization: Bearer TOKEN, and %s", ErrNoToken, reason, tokenHint)
}

// invalidTokenError keeps the words of the API server out, which may quote from the token.
func invalidTokenError(reason string) error {
	return fmt.Errorf("%w: %s; %s", ErrInvalidToken, reason, tokenHint)
}

// reviewFailedError says what failed and what to do about it, in words in which no request body can
// occur: the one of a TokenReview is a token.
func reviewFailedError(subject, review string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %w: %w", subject, ErrReviewFailed, context.Canceled)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s %w: the center may not create %s; bind the ClusterRole system:auth-delegator to its service account",
			subject, ErrReviewFailed, review)
	}
	return fmt.Errorf("%s %w: the API server did not answer a request for %s (%s); try again in some seconds",
		subject, ErrReviewFailed, review, safeCause(err))
}

// safeCause is the harmless part of an error: the reason that the API server gave, or what happened
// to the connection.
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
