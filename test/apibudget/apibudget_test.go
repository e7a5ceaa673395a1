// Package apibudget counts the operator's requests to the API server and compares them with budgets for creating,
// keeping, updating and correcting drift of an application.
//
// It counts the requests of the operator's user in the audit log of the API server. All rows run on one control
// plane, one after another, and the result is one table.
//
// Safety rule: a row that cannot be measured fails. An idle row is valid only because the audit log had entries in
// the row before.
package apibudget

import (
	"flag"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// The defaults are the short profile. make calls runs the full profile.
var (
	apps        = flag.Int("apps", 50, "number of AppServices")
	stacks      = flag.Int("stacks", 16, "number of AppStacks with four components")
	idlePeriod  = flag.Duration("settle", 3*time.Second, "idle time to measure")
	updates     = flag.Int("updates", 5, "number of rolling updates, and of AppStacks per kind of edit")
	parallelism = flag.Int("parallelism", 5, "number of AppServices updated at the same time")
)

func TestAPIRequestBudget(t *testing.T) {
	s := newHarness(t)
	defer s.table.publish(t)
	// The first rows use leader election, as in production.
	s.startOperator(operator.Options{LeaderElection: true})
	for _, phase := range []struct {
		name string
		run  func()
	}{
		{"create", s.measureAppCreation}, {"create stacks", s.measureStackCreation}, {"rest", s.measureIdle}, {"restart", s.measureRestart},
		{"touch", s.measureAppTouch}, {"touch stacks", s.measureStackTouch}, {"confirm", s.measureFirstDriftAfterRestart}, {"drift", s.measureDrift},
		{"update", s.measureUpdates}, {"update stacks", s.measureStackEdits},
	} {
		start := time.Now()
		phase.run()
		t.Logf("%s took %.1f s", phase.name, time.Since(start).Seconds())
	}
	s.checkForbidden()
}
