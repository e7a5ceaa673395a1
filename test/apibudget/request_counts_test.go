package apibudget

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
	rejected // writes of any kind
	reads
	finalizers   // writes of the finalizer of a stack
	revisions    // specs that are remembered
	healthyMarks // revisions that are noted to be healthy
	otherWrites  // writes that no row expects
	numCategories
)

var categoryNames = [numCategories]string{"children", "status", "events", "refused", "reads", "finalizers", "revisions", "marks", "other writes"}

// exactCategories is what a budget does not only allow: fewer of them were not seen, or not made.
var exactCategories = []int{children, finalizers, revisions, healthyMarks}

// requestCounts is how often something was asked for.
type requestCounts [numCategories]int

func (t requestCounts) String() string {
	return formatCounts(func(what int) (string, bool) { return fmt.Sprint(t[what]), t[what] > 0 })
}

// formatCounts lists the numbers; the later ones only where there are any.
func formatCounts(number func(what int) (formatCounts string, some bool)) string {
	var parts []string
	for what, word := range categoryNames {
		if n, some := number(what); some || what <= reads {
			parts = append(parts, n+" "+word)
		}
	}
	return strings.Join(parts, ", ")
}

// maxOfEach takes the larger of each number.
func (t requestCounts) maxOfEach(o requestCounts) requestCounts {
	for what := range t {
		t[what] = max(t[what], o[what])
	}
	return t
}

// within says whether no number is larger than in the budget.
func (t requestCounts) within(budget requestCounts) bool { return t.maxOfEach(budget) == budget }

// meetsBudget says whether no number is larger than in the budget, and none of these smaller.
func (t requestCounts) meetsBudget(budget requestCounts, exactly []int) bool {
	return t.within(budget) && !slices.ContainsFunc(exactly, func(category int) bool { return t[category] < budget[category] })
}

func countRequests(requests audit.Events) requestCounts {
	var t requestCounts
	for i := range requests {
		t[categoryOf(&requests[i])]++
	}
	return t
}

func categoryOf(e *audit.Event) int {
	switch {
	case !e.IsWrite():
		return reads
	case !e.Accepted():
		return rejected
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
		return revisionCategory(e)
	}
	return otherWrites
}

func revisionCategory(e *audit.Event) int {
	var patch struct {
		Metadata struct{ Annotations map[string]string }
	}
	switch {
	case e.Verb == "create":
		return revisions
	case e.Verb == "patch" && json.Unmarshal(e.RequestObject, &patch) == nil && patch.Metadata.Annotations["apps.holdfast.dev/revision-healthy"] == "true":
		return healthyMarks
	}
	return otherWrites
}

// countByApp counts by the application that a request was about. What was about none of
// these is counted under the empty name.
func countByApp(requests audit.Events, names []string) map[string]requestCounts {
	out := map[string]requestCounts{}
	for i := range requests {
		name := appOf(&requests[i])
		if !slices.Contains(names, name) {
			name = ""
		}
		t := out[name]
		t[categoryOf(&requests[i])]++
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

// budgetRow is the row of what each of these applications cost. These numbers must be met, all
// others not exceeded, and nothing may be about anything else.
func budgetRow(name string, budget requestCounts, got audit.Events, names []string, exactly ...int) row {
	if len(names) == 0 {
		return row{Name: name, Budget: budget.String(), Measured: "nothing"}
	}
	counts := countByApp(got, names)
	r := row{Name: name, Budget: budget.String(), OK: true}
	var each [numCategories][]int
	for _, name := range names {
		for category, n := range counts[name] {
			each[category] = append(each[category], n)
		}
		if r.OK && !counts[name].meetsBudget(budget, exactly) {
			r.OK, r.Notes = false, describeSome(got.Where(func(e *audit.Event) bool { return appOf(e) == name }))
		}
	}
	r.Measured = formatCounts(func(category int) (string, bool) { return distribution(each[category]), slices.Max(each[category]) > 0 })
	if unattributed := counts[""]; unattributed != (requestCounts{}) {
		r.OK, r.Measured = false, r.Measured+"; about others "+unattributed.String()
		r.Notes = append(r.Notes, describeSome(got.Where(func(e *audit.Event) bool { return !slices.Contains(names, appOf(e)) }))...)
	}
	return r
}

// distribution is the number, or the least, the middle and the most.
func distribution(numbers []int) string {
	sorted := slices.Sorted(slices.Values(numbers))
	if lowest, highest := sorted[0], sorted[len(sorted)-1]; lowest != highest {
		return fmt.Sprintf("%d/%d/%d", lowest, sorted[len(sorted)/2], highest)
	}
	return fmt.Sprint(sorted[0])
}

// operatorRequests keeps what the operator asked for, apart from its Lease and from watches that
// were running before: the end of one, and its continuation from where it stood.
func operatorRequests(requests audit.Events) audit.Events {
	return requests.By(operator.User).Where(func(e *audit.Event) bool {
		switch {
		case e.Verb != "watch":
			return !isLeaderElection(e)
		case e.Stage == audit.StageStarted:
			return isInitialWatch(e)
		}
		return !e.Accepted() // one that was accepted has been counted when it began
	})
}

// isLeaderElection is what leader election asks for, its event included.
func isLeaderElection(e *audit.Event) bool {
	return e.ObjectRef.Namespace == operator.Namespace &&
		(e.ObjectRef.Resource == "leases" || e.ObjectRef.Resource == "events")
}

// isInitialWatch says whether a watch begins with everything there is.
func isInitialWatch(e *audit.Event) bool {
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		return true
	}
	q := u.Query()
	return q.Get("sendInitialEvents") == "true" || q.Get("resourceVersion") == "" || q.Get("resourceVersion") == "0"
}
