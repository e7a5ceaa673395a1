package reconcile

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// childFailure describes why a child could not be written. Its zero value means no failure.
type childFailure struct {
	reason, message string
	rank            int
}

// Ranks of failures. Conflicts are reported first: a user must resolve them.
const (
	rankTransient = iota + 1 // it is retried and says nothing about the child
	rankRejected
	rankConflict
)

func newChildFailure(namespace string, id desired.ID, err error) childFailure {
	if err == nil {
		return childFailure{}
	}
	var nameConflict *ownership.NameConflict
	var terminating *ownership.Terminating
	switch {
	case errors.As(err, &nameConflict):
		return childFailure{appsapi.ReasonNameConflict, err.Error(), rankConflict}
	case execute.IsFieldConflict(err):
		return childFailure{appsapi.ReasonFieldConflict, err.Error(), rankConflict}
	case errors.As(err, &terminating):
		return childFailure{appsapi.ReasonProgressing, err.Error(), rankTransient}
	case errors.Is(err, apply.ErrStale):
		message := fmt.Sprintf("%s %s keeps changing while it is being updated; retrying", id.Kind.Kind, id.Name)
		return childFailure{appsapi.ReasonProgressing, message, rankTransient}
	}
	f := childFailure{appsapi.ReasonApplyFailed, err.Error(), rankRejected}
	var resizeErr execute.ResizeRejectedError
	switch {
	case errors.As(err, &resizeErr):
		f.reason = appsapi.ReasonStorageChangeRejected
	case execute.IsMissingSource(err):
		f.reason = appsapi.ReasonCredentialSourceMissing
	case execute.IsLostCredential(err):
		f.reason = appsapi.ReasonCredentialsLost
	}
	var apiStatus apierrors.APIStatus
	if c, known := rejectionCause(namespace, id, err); known {
		f.message = c.Message
	} else if errors.As(err, &apiStatus) && apply.IsRejected(err) {
		f.message = fmt.Sprintf("The API server rejected %s %s: %s", id.Kind.Kind, id.Name, apiStatus.Status().Message)
	}
	return f
}
