package faults

import (
	"fmt"
	"slices"
	"strings"
)

// plan is one thing that goes wrong in one step of a scenario. Its line plays it again:
//
//	crash,install-stack,apply:deployments.apps/shop-web:1,before
type plan struct {
	kind, step string
	args       []string
}

// The kinds of plans, and what their arguments are.
const (
	crash          = "crash"  // write, mode
	doubleCrash    = "crash2" // write, mode, how many writes of the next life later, mode
	lostResponse   = "lost"   // write: carried out, answered 504
	errorResponse  = "error"  // write, code or reset: not carried out
	staleRestart   = "travel" // how much of the step is shown (percent), whose past: a restart into the past
	missedEvents   = "unseen" // resource: nothing is seen of it during the step
	delayedEvents  = "lag"    // milliseconds: everything is seen late
	expiredWatches = "relist" // every watch expires again and again
)

var planKinds = []string{crash, doubleCrash, lostResponse, errorResponse, staleRestart, missedEvents, delayedEvents, expiredWatches}

// crashModes of a crash.
var crashModes = []string{"before", "unanswered", "after"}

func (p plan) String() string {
	return strings.Join(append([]string{p.kind, p.step}, p.args...), ",")
}

// group is what a plan is counted with: those of its kind that are about data, or not.
func (p plan) group() string {
	if isDataStep(p.step) {
		return p.kind + dataSuffix
	}
	return p.kind
}

const dataSuffix = ", data"

func parsePlan(line string) (plan, error) {
	fields := strings.Split(strings.TrimSpace(line), ",")
	if len(fields) < 2 || !slices.Contains(planKinds, fields[0]) {
		return plan{}, fmt.Errorf("%q is no plan: it begins with one of %s and a step", line, strings.Join(planKinds, ", "))
	}
	if scenarioOf(fields[1]) == nil {
		return plan{}, fmt.Errorf("there is no step %q", fields[1])
	}
	want := map[string]int{crash: 2, doubleCrash: 4, lostResponse: 1, errorResponse: 2, staleRestart: 2, missedEvents: 1, delayedEvents: 1, expiredWatches: 0}[fields[0]]
	if len(fields)-2 != want {
		return plan{}, fmt.Errorf("%q: a plan of kind %s has %d arguments after its step", line, fields[0], want)
	}
	return plan{kind: fields[0], step: fields[1], args: fields[2:]}, nil
}
