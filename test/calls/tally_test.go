package calls

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// tally is how often something was asked for.
type tally struct {
	children, status, events int // accepted writes
	refused                  int // writes of any kind
	reads                    int
	other                    int // accepted writes that no row expects
}

func (t tally) String() string {
	s := fmt.Sprintf("%d children, %d status, %d events, %d refused, %d reads", t.children, t.status, t.events, t.refused, t.reads)
	if t.other > 0 {
		s += fmt.Sprintf(", %d other writes", t.other)
	}
	return s
}

// most takes the larger of each number.
func (t tally) most(o tally) tally {
	return tally{
		children: max(t.children, o.children), status: max(t.status, o.status), events: max(t.events, o.events),
		refused: max(t.refused, o.refused), reads: max(t.reads, o.reads), other: max(t.other, o.other),
	}
}

// within says whether no number is larger than in the budget.
func (t tally) within(budget tally) bool { return t.most(budget) == budget }

func count(requests audit.Events) tally {
	var t tally
	for i := range requests {
		t.add(&requests[i])
	}
	return t
}

func (t *tally) add(e *audit.Event) {
	switch {
	case !e.Write():
		t.reads++
	case !e.Accepted():
		t.refused++
	case e.Resource() == "deployments.apps", e.Resource() == "services":
		t.children++
	case e.Resource() == "appservices.apps.holdfast.dev/status":
		t.status++
	case e.Resource() == "events.events.k8s.io":
		t.events++
	default:
		t.other++
	}
}

// perApp counts by the application that a request was about. What was about none of them
// is counted under the empty name.
func perApp(requests audit.Events) map[string]tally {
	out := map[string]tally{}
	for i := range requests {
		name := appOf(&requests[i])
		t := out[name]
		t.add(&requests[i])
		out[name] = t
	}
	return out
}

// appOf names the application: children have its name, events begin with it.
func appOf(e *audit.Event) string {
	name := e.ObjectRef.Name
	if e.ObjectRef.Resource == "events" {
		name = name[:max(strings.LastIndex(name, "."), 0)]
	}
	return name
}

// ours keeps what the operator asked for, apart from its Lease and from watches that
// were running before: the end of one, and its continuation from where it stood.
func ours(requests audit.Events) audit.Events {
	return requests.By(operator.User).Where(func(e *audit.Event) bool {
		switch {
		case e.Verb != "watch":
			return !lease(e)
		case e.Stage == audit.StageStarted:
			return initial(e)
		}
		return !e.Accepted() // one that was accepted has been counted when it began
	})
}

// lease is what leader election asks for, its event included.
func lease(e *audit.Event) bool {
	return e.ObjectRef.Namespace == operator.Namespace &&
		(e.ObjectRef.Resource == "leases" || e.ObjectRef.Resource == "events")
}

// initial says whether a watch begins with everything there is.
func initial(e *audit.Event) bool {
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		return true
	}
	q := u.Query()
	return q.Get("sendInitialEvents") == "true" || q.Get("resourceVersion") == "" || q.Get("resourceVersion") == "0"
}
