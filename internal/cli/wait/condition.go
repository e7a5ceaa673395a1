package wait

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// result is what an application is, measured by what is waited for.
type result struct {
	reached bool
	// unreachable says that it cannot be reached any more.
	unreachable bool
	// message is what it waits for, or what it is now.
	message string
}

// condition judges an application as it is now.
type condition func(app application.Application) result

// parseCondition reads the flag.
func parseCondition(arg string) (check condition, untilDeleted bool, err error) {
	switch name, number, _ := strings.Cut(arg, "="); {
	case arg == "ready":
		return checkReady, false, nil
	case arg == "suspended":
		return checkSuspended, false, nil
	case arg == "deleted":
		return checkDeleted, true, nil
	case name == "revision":
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 {
			return nil, false, fmt.Errorf("%q is no number of a revision; kubectl holdfast history lists them", number)
		}
		return revisionCondition(n), false, nil
	}
	return nil, false, fmt.Errorf("cannot wait for %q; use --for ready, suspended, deleted or revision=N", arg)
}

// checkObserved says whether the operator has seen the spec as it is now; if not, what it waits for.
func checkObserved(app application.Application) (message string, ok bool) {
	switch observed := app.ApplicationStatus().ObservedGeneration; {
	case observed == app.GetGeneration():
		return "", true
	case observed == 0:
		return "the operator has not looked at it yet; if that takes long, kubectl holdfast doctor tells why", false
	}
	return "the operator has not seen the last change of its spec yet; if that takes long, kubectl holdfast doctor tells why", false
}

func checkReady(app application.Application) result {
	if message, ok := checkObserved(app); !ok {
		return result{message: message}
	}
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	switch {
	case c == nil || c.ObservedGeneration != app.GetGeneration():
		return result{message: "the operator has not said yet whether it is ready"}
	case c.Status == metav1.ConditionTrue:
		return result{reached: true, message: "is ready: " + c.Message}
	}
	return result{message: c.Message}
}

func checkSuspended(app application.Application) result {
	if _, ok := app.(*appsapi.CloudManager); ok {
		return result{unreachable: true, message: "cannot be suspended: its kind has no field for that; wait for it with --for ready"}
	}
	for _, c := range application.Components(app) {
		if !c.Suspend {
			return result{message: fmt.Sprintf("its spec does not say suspend; kubectl holdfast suspend %s -n %s sets it", app.GetName(), app.GetNamespace())}
		}
	}
	if message, ok := checkObserved(app); !ok {
		return result{message: message}
	}
	return result{reached: true, message: "is suspended"}
}

// checkDeleted judges what is still there.
func checkDeleted(app application.Application) result {
	if app.GetDeletionTimestamp() == nil {
		return result{message: fmt.Sprintf("nobody has deleted it; kubectl delete %s %s -n %s does", strings.ToLower(application.KindOf(app)), app.GetName(), app.GetNamespace())}
	}
	// About a deletion the operator speaks in any generation: the spec no longer matters.
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	if c == nil || c.Reason != appsapi.ReasonDeleting {
		return result{message: "it is being deleted"}
	}
	return result{message: c.Message}
}

func revisionCondition(n int64) condition {
	return func(app application.Application) result {
		status, ok := app.(interface{ StackStatus() *appsapi.StackStatus })
		if !ok {
			return result{unreachable: true, message: fmt.Sprintf("has no revisions: an %s remembers no earlier specs; wait for it with --for ready", application.KindOf(app))}
		}
		if message, ok := checkObserved(app); !ok {
			return result{message: message}
		}
		applied, err := strconv.ParseInt(status.StackStatus().CurrentRevision, 10, 64)
		switch {
		case err != nil:
			return result{message: "the operator has not said yet which revision is applied"}
		case applied == n:
			return result{reached: true, message: fmt.Sprintf("is at revision %d", n)}
		case applied > n:
			return result{unreachable: true, message: fmt.Sprintf("is at revision %d already, and numbers only grow; kubectl holdfast history %s -n %s lists them", applied, app.GetName(), app.GetNamespace())}
		}
		return result{message: fmt.Sprintf("revision %d is applied", applied)}
	}
}
