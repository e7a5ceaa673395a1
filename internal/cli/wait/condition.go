package wait

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// result is the result of a condition.
type result struct {
	reached bool
	// unreachable is set if the condition can no longer become true.
	unreachable bool
	// message names the missing state, or the state that was reached.
	message string
}

// condition evaluates an application.
type condition func(app appkind.Application) result

// parseCondition parses the flag --for.
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
			return nil, false, fmt.Errorf("invalid revision %q; kubectl holdfast history lists the revisions", number)
		}
		return revisionCondition(n), false, nil
	}
	return nil, false, fmt.Errorf("condition %q is not supported; use --for ready, suspended, deleted or revision=N", arg)
}

// checkObserved reports whether the operator has observed the current generation.
func checkObserved(app appkind.Application) (message string, ok bool) {
	switch observed := app.ApplicationStatus().ObservedGeneration; {
	case observed == app.GetGeneration():
		return "", true
	case observed == 0:
		return "the operator has not observed it yet; if this takes long, run kubectl holdfast doctor", false
	}
	return "the operator has not observed the latest spec yet; if this takes long, run kubectl holdfast doctor", false
}

func checkReady(app appkind.Application) result {
	if message, ok := checkObserved(app); !ok {
		return result{message: message}
	}
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	switch {
	case c == nil || c.ObservedGeneration != app.GetGeneration():
		return result{message: "the operator has not updated condition Ready yet"}
	case c.Status == metav1.ConditionTrue:
		if rotating := appkind.Rotating(app); rotating != nil { // clients are still to restart with the new password
			return result{message: rotating.Message}
		}
		return result{reached: true, message: "is ready: " + c.Message}
	}
	return result{message: c.Message}
}

func checkSuspended(app appkind.Application) result {
	if !appkind.Of(app).Operations {
		return result{unreachable: true, message: "cannot be suspended: its kind has no operations; use --for ready"}
	}
	for _, c := range appkind.Components(app) {
		if !c.Operations.Suspend {
			return result{message: fmt.Sprintf("suspend is not set in its spec; run kubectl holdfast suspend %s -n %s",
				app.GetName(), app.GetNamespace())}
		}
	}
	if message, ok := checkObserved(app); !ok {
		return result{message: message}
	}
	return result{reached: true, message: "is suspended"}
}

// checkDeleted returns the progress of the deletion.
func checkDeleted(app appkind.Application) result {
	if app.GetDeletionTimestamp() == nil {
		return result{message: fmt.Sprintf("its deletion has not been requested; run kubectl delete %s %s -n %s",
			cli.KindName(app), app.GetName(), app.GetNamespace())}
	}
	// The generation does not matter: the operator no longer applies the spec.
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	if c == nil || c.Reason != appsapi.ReasonDeleting {
		return result{message: "its deletion is in progress"}
	}
	return result{message: c.Message}
}

func revisionCondition(n int64) condition {
	return func(app appkind.Application) result {
		status, ok := app.(appkind.Stack)
		if !ok {
			return result{unreachable: true, message: fmt.Sprintf("has no revisions: kind %s has no history; use --for ready", appkind.Of(app).Kind)}
		}
		if message, ok := checkObserved(app); !ok {
			return result{message: message}
		}
		applied, err := strconv.ParseInt(status.StackStatus().CurrentRevision, 10, 64)
		switch {
		case err != nil:
			return result{message: "the operator has not reported the applied revision yet"}
		case applied == n:
			return result{reached: true, message: fmt.Sprintf("is at revision %d", n)}
		case applied > n:
			return result{unreachable: true, message: fmt.Sprintf(
				"is already at revision %d, and revision numbers only increase; kubectl holdfast history %s -n %s lists the revisions",
				applied, app.GetName(), app.GetNamespace())}
		}
		return result{message: fmt.Sprintf("revision %d is applied", applied)}
	}
}
