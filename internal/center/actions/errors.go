package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// Reason is why something was not done, for programs.
type Reason string

// Reasons.
const (
	// Unauthenticated means that the API server does not take the token any more.
	Unauthenticated Reason = "Unauthenticated"
	Forbidden       Reason = "Forbidden"
	NotFound        Reason = "NotFound"
	// Conflict means that somebody else was faster.
	Conflict Reason = "Conflict"
	// Invalid means that what was asked for cannot be.
	Invalid Reason = "Invalid"
	// Unavailable means that the API server did not answer.
	Unavailable Reason = "Unavailable"
)

// Error is why something was not done. It wraps nothing: the words of what is behind it may quote
// values.
type Error struct {
	Reason Reason
	// Message names the object and the next step.
	Message string
}

func (e *Error) Error() string { return e.Message }

// HTTPStatus is how HTTP says it.
func (e *Error) HTTPStatus() int {
	switch e.Reason {
	case Unauthenticated:
		return http.StatusUnauthorized
	case Forbidden:
		return http.StatusForbidden
	case NotFound:
		return http.StatusNotFound
	case Conflict:
		return http.StatusConflict
	case Invalid:
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}

func invalid(format string, args ...any) *Error {
	return &Error{Invalid, fmt.Sprintf(format, args...)}
}

// operation is what was tried.
type operation struct {
	verb   string
	writes bool
}

var (
	opGet, opReadLogs, opReadRevisions                  = operation{"get", false}, operation{"read the logs of", false}, operation{"read the revisions of", false}
	opRestart, opSuspend, opResume, opScale, opRollback = operation{"restart", true}, operation{"suspend", true}, operation{"resume", true}, operation{"scale", true}, operation{"roll back", true}
)

func (d operation) String() string { return d.verb }

// toError says what became of an attempt to do something to an object.
func toError(op operation, ref Ref, err error) error {
	var refusal *application.UserError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return context.Canceled // whoever asked has gone
	case errors.As(err, &refusal) && refusal.Conflict:
		return &Error{Conflict, redact.Text(refusal.NonCLIMessage())}
	case errors.As(err, &refusal):
		return &Error{Invalid, redact.Text(refusal.NonCLIMessage())}
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource"):
		return &Error{NotFound, fmt.Sprintf("%s %s: the API server does not know this kind; is its definition installed? kubectl api-resources lists those it knows", op, ref)}
	case apierrors.IsNotFound(err):
		return &Error{NotFound, fmt.Sprintf("%s %s: %s; it may be gone by now, so look at what there is again", op, ref, statusMessage(err))}
	case apierrors.IsForbidden(err):
		message := statusMessage(err)
		if !strings.Contains(message, "; ") { // an admission policy of ours says itself what to do
			message += fmt.Sprintf("; ask %s for this right, or use another token", ref.administrator())
		}
		return &Error{Forbidden, fmt.Sprintf("%s %s: %s", op, ref, message)}
	case apierrors.IsUnauthorized(err):
		return &Error{Unauthenticated, fmt.Sprintf("%s %s: the API server does not accept the token any more; get a new one", op, ref)}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &Error{Conflict, fmt.Sprintf("%s %s: somebody else was faster, so nothing was done; look at it, and try again", op, ref)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return &Error{Invalid, fmt.Sprintf("%s %s: the API server does not take it: %s; correct the spec: kubectl edit %s %s%s", op, ref, statusMessage(err), strings.ToLower(ref.Kind), ref.Name, ref.namespaceFlag())}
	}
	hint := "try again in some seconds"
	if op.writes {
		hint = "it may be done or not, so look at it before you try again"
	}
	return &Error{Unavailable, fmt.Sprintf("%s %s: the API server did not answer (%s); %s", op, ref, unavailableReason(err), hint)}
}

// statusMessage is what the API server said, without values.
func statusMessage(err error) string {
	var apiStatus apierrors.APIStatus
	if !errors.As(err, &apiStatus) {
		return redact.Text(err.Error())
	}
	status := apiStatus.Status()
	if apierrors.IsInvalid(err) && status.Details != nil && len(status.Details.Causes) > 0 {
		var all []string
		for _, c := range status.Details.Causes {
			all = append(all, fmt.Sprintf("%s: %s", c.Field, redact.Text(redactQuotedValue(c.Message))))
		}
		return strings.Join(all, ", ")
	}
	return redact.Text(redactQuotedValue(status.Message))
}

// redactQuotedValue hides the value that a sentence about it quotes: it may be a whole object, with
// everything that is in it.
func redactQuotedValue(message string) string {
	const marker = " value: "
	i := strings.Index(message, marker)
	if i < 0 {
		return message
	}
	before, after := message[:i+len(marker)], message[i+len(marker):]
	decoder := json.NewDecoder(strings.NewReader(after))
	var value any
	if err := decoder.Decode(&value); err != nil {
		return before + redact.Placeholder
	}
	switch value.(type) {
	case float64, bool, nil:
		return message
	}
	return before + redact.Placeholder + redactQuotedValue(after[decoder.InputOffset():])
}

// unavailableReason is what happened, without addresses inside the cluster.
func unavailableReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "it cannot be reached"
}
