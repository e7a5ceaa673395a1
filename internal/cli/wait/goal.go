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

// verdict is what an application is, measured by what is waited for.
type verdict struct {
	reached bool
	// never says that it cannot be reached any more.
	never bool
	// sentence is what it waits for, or what it is now.
	sentence string
}

// goal judges an application as it is now.
type goal func(app application.Application) verdict

// goalOf reads the flag.
func goalOf(word string) (g goal, gone bool, err error) {
	switch name, number, _ := strings.Cut(word, "="); {
	case word == "ready":
		return ready, false, nil
	case word == "suspended":
		return suspended, false, nil
	case word == "deleted":
		return notGone, true, nil
	case name == "revision":
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 {
			return nil, false, fmt.Errorf("%q is no number of a revision; kubectl holdfast history lists them", number)
		}
		return atRevision(n), false, nil
	}
	return nil, false, fmt.Errorf("cannot wait for %q; use --for ready, suspended, deleted or revision=N", word)
}

// current says whether the operator has seen the spec as it is now; if not, what it waits for.
func current(app application.Application) (sentence string, ok bool) {
	switch seen := app.ApplicationStatus().ObservedGeneration; {
	case seen == app.GetGeneration():
		return "", true
	case seen == 0:
		return "the operator has not looked at it yet; if that takes long, kubectl holdfast doctor tells why", false
	}
	return "the operator has not seen the last change of its spec yet; if that takes long, kubectl holdfast doctor tells why", false
}

func ready(app application.Application) verdict {
	if sentence, ok := current(app); !ok {
		return verdict{sentence: sentence}
	}
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	switch {
	case c == nil || c.ObservedGeneration != app.GetGeneration():
		return verdict{sentence: "the operator has not said yet whether it is ready"}
	case c.Status == metav1.ConditionTrue:
		return verdict{reached: true, sentence: "is ready: " + c.Message}
	}
	return verdict{sentence: c.Message}
}

func suspended(app application.Application) verdict {
	if _, ok := app.(*appsapi.CloudManager); ok {
		return verdict{never: true, sentence: "cannot be suspended: its kind has no field for that; wait for it with --for ready"}
	}
	for _, c := range application.Components(app) {
		if !c.Suspend {
			return verdict{sentence: fmt.Sprintf("its spec does not say suspend; kubectl holdfast suspend %s -n %s sets it", app.GetName(), app.GetNamespace())}
		}
	}
	if sentence, ok := current(app); !ok {
		return verdict{sentence: sentence}
	}
	return verdict{reached: true, sentence: "is suspended"}
}

// notGone judges what is still there.
func notGone(app application.Application) verdict {
	if app.GetDeletionTimestamp() == nil {
		return verdict{sentence: fmt.Sprintf("nobody has deleted it; kubectl delete %s %s -n %s does", strings.ToLower(application.KindOf(app)), app.GetName(), app.GetNamespace())}
	}
	// About a deletion the operator speaks in any generation: the spec no longer matters.
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	if c == nil || c.Reason != appsapi.ReasonDeleting {
		return verdict{sentence: "it is being deleted"}
	}
	return verdict{sentence: c.Message}
}

func atRevision(n int64) goal {
	return func(app application.Application) verdict {
		status, ok := app.(interface{ StackStatus() *appsapi.StackStatus })
		if !ok {
			return verdict{never: true, sentence: fmt.Sprintf("has no revisions: an %s remembers no earlier specs; wait for it with --for ready", application.KindOf(app))}
		}
		if sentence, ok := current(app); !ok {
			return verdict{sentence: sentence}
		}
		at, err := strconv.ParseInt(status.StackStatus().CurrentRevision, 10, 64)
		switch {
		case err != nil:
			return verdict{sentence: "the operator has not said yet which revision is applied"}
		case at == n:
			return verdict{reached: true, sentence: fmt.Sprintf("is at revision %d", n)}
		case at > n:
			return verdict{never: true, sentence: fmt.Sprintf("is at revision %d already, and numbers only grow; kubectl holdfast history %s -n %s lists them", at, app.GetName(), app.GetNamespace())}
		}
		return verdict{sentence: fmt.Sprintf("revision %d is applied", at)}
	}
}
