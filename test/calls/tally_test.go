package calls

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// What is counted. All writes but the refused ones were accepted.
const (
	children = iota
	status
	events
	refused // writes of any kind
	reads
	finalizers // writes of the finalizer of a stack
	revisions  // specs that are remembered
	marks      // revisions that are noted to be healthy
	other      // writes that no row expects
	counted
)

var words = [counted]string{"children", "status", "events", "refused", "reads", "finalizers", "revisions", "marks", "other writes"}

// necessary is what a budget does not only allow: fewer of them were not seen, or not made.
var necessary = []int{children, finalizers, revisions, marks}

// tally is how often something was asked for.
type tally [counted]int

func (t tally) String() string {
	return text(func(what int) (string, bool) { return fmt.Sprint(t[what]), t[what] > 0 })
}

// text lists the numbers; the later ones only where there are any.
func text(number func(what int) (text string, some bool)) string {
	var parts []string
	for what, word := range words {
		if n, some := number(what); some || what <= reads {
			parts = append(parts, n+" "+word)
		}
	}
	return strings.Join(parts, ", ")
}

// most takes the larger of each number.
func (t tally) most(o tally) tally {
	for what := range t {
		t[what] = max(t[what], o[what])
	}
	return t
}

// within says whether no number is larger than in the budget.
func (t tally) within(budget tally) bool { return t.most(budget) == budget }

// meets says whether no number is larger than in the budget, and none of these smaller.
func (t tally) meets(budget tally, exactly []int) bool {
	return t.within(budget) && !slices.ContainsFunc(exactly, func(what int) bool { return t[what] < budget[what] })
}

func count(requests audit.Events) tally {
	var t tally
	for i := range requests {
		t[kindOf(&requests[i])]++
	}
	return t
}

func kindOf(e *audit.Event) int {
	switch {
	case !e.Write():
		return reads
	case !e.Accepted():
		return refused
	}
	switch e.Resource() {
	case "deployments.apps", "services", "jobs.batch":
		return children
	case "appservices.apps.holdfast.dev/status", "appstacks.apps.holdfast.dev/status":
		return status
	case "events.events.k8s.io":
		return events
	case "appstacks.apps.holdfast.dev":
		return finalizers
	case "controllerrevisions.apps":
		return kindOfRevision(e)
	}
	return other
}

func kindOfRevision(e *audit.Event) int {
	var patch struct {
		Metadata struct{ Annotations map[string]string }
	}
	switch {
	case e.Verb == "create":
		return revisions
	case e.Verb == "patch" && json.Unmarshal(e.RequestObject, &patch) == nil && patch.Metadata.Annotations["apps.holdfast.dev/healthy"] == "true":
		return marks
	}
	return other
}

// perApp counts by the application that a request was about. What was about none of
// these is counted under the empty name.
func perApp(requests audit.Events, names []string) map[string]tally {
	out := map[string]tally{}
	for i := range requests {
		name := appOf(&requests[i])
		if !slices.Contains(names, name) {
			name = ""
		}
		t := out[name]
		t[kindOf(&requests[i])]++
		out[name] = t
	}
	return out
}

// appOf names the application: children have its name, events and what belongs to a stack
// begin with it.
func appOf(e *audit.Event) string {
	name := e.ObjectRef.Name
	if e.ObjectRef.Resource == "events" {
		name = name[:max(strings.LastIndex(name, "."), 0)]
	}
	if isStack(name) {
		name = name[:min(len(name), len(stackName(0)))]
	}
	return name
}

// spent is the row of what each of these applications cost. These numbers must be met, all
// others not exceeded, and nothing may be about anything else.
func spent(name string, budget tally, got audit.Events, names []string, exactly ...int) row {
	if len(names) == 0 {
		return row{Name: name, Budget: budget.String(), Measured: "nothing"}
	}
	counts := perApp(got, names)
	r := row{Name: name, Budget: budget.String(), OK: true}
	var each [counted][]int
	for _, name := range names {
		for what, n := range counts[name] {
			each[what] = append(each[what], n)
		}
		if r.OK && !counts[name].meets(budget, exactly) {
			r.OK, r.Notes = false, sample(got.Where(func(e *audit.Event) bool { return appOf(e) == name }))
		}
	}
	r.Measured = text(func(what int) (string, bool) { return spread(each[what]), slices.Max(each[what]) > 0 })
	if stray := counts[""]; stray != (tally{}) {
		r.OK, r.Measured = false, r.Measured+"; about others "+stray.String()
		r.Notes = append(r.Notes, sample(got.Where(func(e *audit.Event) bool { return !slices.Contains(names, appOf(e)) }))...)
	}
	return r
}

// spread is the number, or the least, the middle and the most.
func spread(numbers []int) string {
	sorted := slices.Sorted(slices.Values(numbers))
	if least, most := sorted[0], sorted[len(sorted)-1]; least != most {
		return fmt.Sprintf("%d/%d/%d", least, sorted[len(sorted)/2], most)
	}
	return fmt.Sprint(sorted[0])
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
