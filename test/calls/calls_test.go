// Package calls counts what the operator asks of the API server and holds it against
// the budget: what an application costs to create, to keep, to repair and to update.
//
// The witness is the API server's own audit log, read for the operator's user alone; the
// operator is not asked. Everything happens on one control plane, one row after another,
// and the result is one table.
//
// Safety rule: a row that could not be measured fails. Silence is proven by a log that
// was seen to work in the row before.
package calls

import (
	"flag"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// Without flags the short profile runs, as one test among others; make calls runs the
// full one.
var (
	apps    = flag.Int("apps", 50, "AppServices that are settled")
	stacks  = flag.Int("stacks", 16, "AppStacks of four components that are settled")
	settle  = flag.Duration("settle", 3*time.Second, "how long they are watched at rest")
	updates = flag.Int("updates", 5, "rolling updates, and AppStacks that are edited in the same way")
	abreast = flag.Int("abreast", 5, "AppServices that are updated at the same time")
)

func TestCalls(t *testing.T) {
	s := newStage(t)
	defer s.table.publish(t)
	// The first rows run as in production, with a Lease.
	s.run(operator.Options{LeaderElection: true})
	for _, part := range []struct {
		name string
		play func()
	}{
		{"create", s.create}, {"create stacks", s.createStacks}, {"rest", s.rest}, {"restart", s.restart},
		{"touch", s.touch}, {"touch stacks", s.touchStacks}, {"confirm", s.confirm}, {"drift", s.drift},
		{"update", s.update}, {"update stacks", s.updateStacks},
	} {
		start := time.Now()
		part.play()
		t.Logf("%s took %.1f s", part.name, time.Since(start).Seconds())
	}
	s.forbidden()
}
