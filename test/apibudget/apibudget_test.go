// Package apibudget counts what the operator asks of the API server and holds it against
// the budget: what an application costs to create, to keep, to repair and to update.
//
// The witness is the API server's own audit log, read for the operator's user alone; the
// operator is not asked. Everything happens on one control plane, one row after another,
// and the result is one table.
//
// Safety rule: a row that could not be measured fails. Silence is proven by a log that
// was seen to work in the row before.
package apibudget

import (
	"flag"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// Without flags the short profile runs, as one test among others; make calls runs the
// full one.
var (
	apps        = flag.Int("apps", 50, "AppServices that are settled")
	stacks      = flag.Int("stacks", 16, "AppStacks of four components that are settled")
	idlePeriod  = flag.Duration("settle", 3*time.Second, "how long they are watched at rest")
	updates     = flag.Int("updates", 5, "rolling updates, and AppStacks that are edited in the same way")
	parallelism = flag.Int("abreast", 5, "AppServices that are updated at the same time")
)

func TestAPIRequestBudget(t *testing.T) {
	s := newHarness(t)
	defer s.table.publish(t)
	// The first rows run as in production, with a Lease.
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
