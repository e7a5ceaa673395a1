package faults

import (
	"fmt"
	"slices"
	"strings"
)

// plan is one fault in one step of a scenario. Its string form replays it:
//
//	crash,install-stack,apply:deployments.apps/shop-web:1,before
type plan struct {
	kind, step string
	args       []string
}

// The kinds of plans and their arguments.
const (
	crash          = "crash"  // write, mode
	doubleCrash    = "crash2" // write, mode, number of the write after the restart, mode
	lostResponse   = "lost"   // write: executed, but answered 504
	errorResponse  = "error"  // write, code or reset: not executed
	staleRestart   = "travel" // shown part of the step (percent), stale kinds: restart with stale state
	missedEvents   = "unseen" // resource: its events are missed during the step
	delayedEvents  = "lag"    // milliseconds: all events are delayed
	expiredWatches = "relist" // every watch expires repeatedly
)

var planKinds = []string{crash, doubleCrash, lostResponse, errorResponse, staleRestart, missedEvents, delayedEvents, expiredWatches}

var crashModes = []string{"before", "unanswered", "after"}

func (p plan) String() string {
	return strings.Join(append([]string{p.kind, p.step}, p.args...), ",")
}

// group is the group by which a plan is counted: its kind, with or without data.
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
		return plan{}, fmt.Errorf("%q is not a plan: it must begin with one of %s and a step", line, strings.Join(planKinds, ", "))
	}
	if scenarioOf(fields[1]) == nil {
		return plan{}, fmt.Errorf("unknown step %q", fields[1])
	}
	want := map[string]int{crash: 2, doubleCrash: 4, lostResponse: 1, errorResponse: 2, staleRestart: 2, missedEvents: 1, delayedEvents: 1, expiredWatches: 0}[fields[0]]
	if len(fields)-2 != want {
		return plan{}, fmt.Errorf("%q: a plan of kind %s has %d arguments after its step", line, fields[0], want)
	}
	return plan{kind: fields[0], step: fields[1], args: fields[2:]}, nil
}
