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

// Categories of requests. Writes of all categories except rejected were accepted.
const (
	children = iota
	status
	events
	rejected // rejected writes of any category
	reads
	finalizers   // writes of the finalizer of a stack
	revisions    // writes of new revisions
	healthyMarks // writes that mark a revision as healthy
	otherWrites  // writes outside of the other categories
	numCategories
)

var categoryNames = [numCategories]string{"children", "status", "events", "rejected", "reads", "finalizers", "revisions", "marks",
	"other writes"}

// exactCategories are the categories for which a budget is exact: fewer requests are an error, too.
var exactCategories = []int{children, finalizers, revisions, healthyMarks}

// requestCounts is the number of requests by category.
type requestCounts [numCategories]int

func (t requestCounts) String() string {
	return formatCounts(func(what int) (string, bool) { return fmt.Sprint(t[what]), t[what] > 0 })
}

// formatCounts formats the numbers. It omits the later categories if they are 0.
func formatCounts(number func(what int) (formatCounts string, some bool)) string {
	var parts []string
	for what, word := range categoryNames {
		if n, some := number(what); some || what <= reads {
			parts = append(parts, n+" "+word)
		}
	}
	return strings.Join(parts, ", ")
}

// maxOfEach returns the maximum of each number.
func (t requestCounts) maxOfEach(o requestCounts) requestCounts {
	for what := range t {
		t[what] = max(t[what], o[what])
	}
	return t
}

// within reports whether no number exceeds the budget.
func (t requestCounts) within(budget requestCounts) bool { return t.maxOfEach(budget) == budget }

// meetsBudget reports whether no number exceeds the budget and the exact categories are equal.
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

// countByApp counts requests by application. Requests for no known application have the empty name.
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

// appOf returns the application of a request. Children have its name; the names of events and of the children of a
// stack start with it.
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

// budgetRow returns the row for the cost of each of the applications. The exact categories must match, the others
// must not exceed the budget, and there must be no requests for other objects.
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
		r.OK, r.Measured = false, r.Measured+"; unrelated "+unattributed.String()
		r.Notes = append(r.Notes, describeSome(got.Where(func(e *audit.Event) bool { return !slices.Contains(names, appOf(e)) }))...)
	}
	return r
}

// distribution formats a number, or the minimum, median and maximum.
func distribution(numbers []int) string {
	sorted := slices.Sorted(slices.Values(numbers))
	if lowest, highest := sorted[0], sorted[len(sorted)-1]; lowest != highest {
		return fmt.Sprintf("%d/%d/%d", lowest, sorted[len(sorted)/2], highest)
	}
	return fmt.Sprint(sorted[0])
}

// operatorRequests returns the requests of the operator without leader election and without the end and the
// resumption of watches that were started before.
func operatorRequests(requests audit.Events) audit.Events {
	return requests.By(operator.User).Where(func(e *audit.Event) bool {
		switch {
		case e.Verb != "watch":
			return !isLeaderElection(e)
		case e.Stage == audit.StageStarted:
			return isInitialWatch(e)
		}
		return !e.Accepted() // an accepted watch was counted when it started
	})
}

// isLeaderElection reports whether a request belongs to leader election, including its event.
func isLeaderElection(e *audit.Event) bool {
	return e.ObjectRef.Namespace == operator.Namespace &&
		(e.ObjectRef.Resource == "leases" || e.ObjectRef.Resource == "events")
}

// isInitialWatch reports whether a watch starts with the list of all objects.
func isInitialWatch(e *audit.Event) bool {
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		return true
	}
	q := u.Query()
	return q.Get("sendInitialEvents") == "true" || q.Get("resourceVersion") == "" || q.Get("resourceVersion") == "0"
}
