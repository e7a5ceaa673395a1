package act

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

// Status is how HTTP says it.
func (e *Error) Status() int {
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

// deed is what was tried.
type deed struct {
	words  string
	writes bool
}

var (
	gets, readsLogs, readsRevisions                = deed{"get", false}, deed{"read the logs of", false}, deed{"read the revisions of", false}
	restarts, suspends, resumes, scales, rollsBack = deed{"restart", true}, deed{"suspend", true}, deed{"resume", true}, deed{"scale", true}, deed{"roll back", true}
)

func (d deed) String() string { return d.words }

// failed says what became of an attempt to do something to an object.
func failed(doing deed, of Ref, err error) error {
	var refusal *application.Refusal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return context.Canceled // whoever asked has gone
	case errors.As(err, &refusal) && refusal.Meanwhile:
		return &Error{Conflict, redact.Text(refusal.Elsewhere())}
	case errors.As(err, &refusal):
		return &Error{Invalid, redact.Text(refusal.Elsewhere())}
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource"):
		return &Error{NotFound, fmt.Sprintf("%s %s: the API server does not know this kind; is its definition installed? kubectl api-resources lists those it knows", doing, of)}
	case apierrors.IsNotFound(err):
		return &Error{NotFound, fmt.Sprintf("%s %s: %s; it may be gone by now, so look at what there is again", doing, of, sentence(err))}
	case apierrors.IsForbidden(err):
		said := sentence(err)
		if !strings.Contains(said, "; ") { // an admission policy of ours says itself what to do
			said += fmt.Sprintf("; ask %s for this right, or use another token", of.administrator())
		}
		return &Error{Forbidden, fmt.Sprintf("%s %s: %s", doing, of, said)}
	case apierrors.IsUnauthorized(err):
		return &Error{Unauthenticated, fmt.Sprintf("%s %s: the API server does not accept the token any more; get a new one", doing, of)}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &Error{Conflict, fmt.Sprintf("%s %s: somebody else was faster, so nothing was done; look at it, and try again", doing, of)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		return &Error{Invalid, fmt.Sprintf("%s %s: the API server does not take it: %s; correct the spec: kubectl edit %s %s%s", doing, of, sentence(err), strings.ToLower(of.Kind), of.Name, of.flag())}
	}
	next := "try again in some seconds"
	if doing.writes {
		next = "it may be done or not, so look at it before you try again"
	}
	return &Error{Unavailable, fmt.Sprintf("%s %s: the API server did not answer (%s); %s", doing, of, cause(err), next)}
}

// sentence is what the API server said, without values.
func sentence(err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return redact.Text(err.Error())
	}
	status := answer.Status()
	if apierrors.IsInvalid(err) && status.Details != nil && len(status.Details.Causes) > 0 {
		var all []string
		for _, c := range status.Details.Causes {
			all = append(all, fmt.Sprintf("%s: %s", c.Field, redact.Text(withoutValue(c.Message))))
		}
		return strings.Join(all, ", ")
	}
	return redact.Text(withoutValue(status.Message))
}

// withoutValue hides the value that a sentence about it quotes: it may be a whole object, with
// everything that is in it.
func withoutValue(message string) string {
	const mark = " value: "
	i := strings.Index(message, mark)
	if i < 0 {
		return message
	}
	before, after := message[:i+len(mark)], message[i+len(mark):]
	decoder := json.NewDecoder(strings.NewReader(after))
	var value any
	if err := decoder.Decode(&value); err != nil {
		return before + redact.Hidden
	}
	switch value.(type) {
	case float64, bool, nil:
		return message
	}
	return before + redact.Hidden + withoutValue(after[decoder.InputOffset():])
}

// cause is what happened, without addresses inside the cluster.
func cause(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	return "it cannot be reached"
}
