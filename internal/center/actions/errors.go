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

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/redact"
)

// Reason is the machine-readable reason of an error.
type Reason string

// Reasons.
const (
	// Unauthenticated means that the API server no longer accepts the token.
	Unauthenticated Reason = "Unauthenticated"
	Forbidden       Reason = "Forbidden"
	NotFound        Reason = "NotFound"
	// Conflict means that the object was changed by another client.
	Conflict Reason = "Conflict"
	// Invalid means that the request is not valid for the object.
	Invalid Reason = "Invalid"
	// Unavailable means that the API server did not respond.
	Unavailable Reason = "Unavailable"
)

// Error is a failed operation. It wraps no error, because the message of the cause may contain secret values.
type Error struct {
	Reason Reason
	// Message contains the object, the problem and the next step.
	Message string
}

func (e *Error) Error() string { return e.Message }

// HTTPStatus returns the HTTP status code for the reason.
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

// operation is the operation that failed.
type operation struct {
	verb   string
	writes bool
}

var (
	opGet, opReadLogs, opReadRevisions                  = operation{"get", false}, operation{"read the logs of", false}, operation{"read the revisions of", false}
	opRestart, opSuspend, opResume, opScale, opRollback = operation{"restart", true}, operation{"suspend", true}, operation{"resume", true}, operation{"scale", true}, operation{"roll back", true}
)

func (d operation) String() string { return d.verb }

// toError converts an error of the API server to an [*Error].
func toError(op operation, ref Ref, err error) error {
	var refusal *appkind.UserError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return context.Canceled // the client has disconnected
	case errors.As(err, &refusal) && refusal.Conflict:
		return &Error{Conflict, redact.Text(refusal.NonCLIMessage())}
	case errors.As(err, &refusal):
		return &Error{Invalid, redact.Text(refusal.NonCLIMessage())}
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource"):
		return &Error{NotFound, fmt.Sprintf("%s %s: the API server does not serve this kind; "+
			"install its CustomResourceDefinition, or check the name with kubectl api-resources", op, ref)}
	case apierrors.IsNotFound(err):
		return &Error{NotFound, fmt.Sprintf("%s %s: %s; it may have been deleted, so reload the list", op, ref, statusMessage(err))}
	case apierrors.IsForbidden(err):
		message := statusMessage(err)
		if !strings.Contains(message, "; ") { // Holdfast's admission policies already name the next step
			message += fmt.Sprintf("; ask %s for this permission, or use another token", ref.administrator())
		}
		return &Error{Forbidden, fmt.Sprintf("%s %s: %s", op, ref, message)}
	case apierrors.IsUnauthorized(err):
		return &Error{Unauthenticated, fmt.Sprintf("%s %s: the API server no longer accepts the token; get a new one", op, ref)}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &Error{Conflict, fmt.Sprintf("%s %s: the object was changed by another client and nothing was written; reload it and try again",
			op, ref)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return &Error{Invalid, fmt.Sprintf("%s %s: the API server rejected the change: %s; correct the spec: kubectl edit %s %s%s", op, ref,
			statusMessage(err), strings.ToLower(ref.Kind), ref.Name, ref.namespaceFlag())}
	}
	hint := "try again in a few seconds"
	if op.writes {
		hint = "the change may have been applied, so check the object before you try again"
	}
	return &Error{Unavailable, fmt.Sprintf("%s %s: the API server did not respond (%s); %s", op, ref, unavailableReason(err), hint)}
}

// statusMessage returns the message of the API server without values.
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

// redactQuotedValue hides the value that a validation message quotes. The value may be a whole object.
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

// unavailableReason returns the cause without addresses inside the cluster.
func unavailableReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "connection failed"
}
