package access

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
	// ErrNotValid means that the API server does not accept the token: 401.
	ErrNotValid = errors.New("the token is not valid")
	// ErrCannotCheck means that the API server did not say: 503, and nothing is shown.
	ErrCannotCheck = errors.New("cannot be checked now")
)

// howToGetToken is the next step of everybody without a valid token.
const howToGetToken = "get one with: kubectl create token SERVICE_ACCOUNT -n NAMESPACE"

func noToken(why string) error {
	return fmt.Errorf("%w: %s; send the header Authorization: Bearer TOKEN, and %s", ErrNoToken, why, howToGetToken)
}

// notValid keeps the words of the API server out, which may quote from the token.
func notValid(why string) error {
	return fmt.Errorf("%w: %s; %s", ErrNotValid, why, howToGetToken)
}

// cannotCheck says what failed and what to do about it, in words in which no request body can
// occur: the one of a TokenReview is a token.
func cannotCheck(what, review string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %w: %w", what, ErrCannotCheck, context.Canceled)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s %w: the center may not create %s; bind the ClusterRole system:auth-delegator to its service account",
			what, ErrCannotCheck, review)
	}
	return fmt.Errorf("%s %w: the API server did not answer a request for %s (%s); try again in some seconds",
		what, ErrCannotCheck, review, cause(err))
}

// cause is the harmless part of an error: the reason that the API server gave, or what happened
// to the connection.
func cause(err error) string {
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
