// Package bench measures how fast the operator is, as a ratio: bare client-go making the
// same writes to the same API server on the same machine is the limit.
//
//	counted pass   few AppServices, audit log on   which writes, and what is in them
//	bare, ours     fresh control plane each        wall time, CPU, memory
//
// The bodies that bare client-go sends are those of the operator, taken from the counted
// pass. Both run as the same user with the same rights.
//
// Safety rule: nothing is compared that did not end complete; every object is counted
// after the clock has stopped.
package bench

import (
	"flag"
	"fmt"
	"testing"
)

var (
	apps    = flag.Int("apps", 0, "AppServices of a measurement; 0 skips it")
	counted = flag.Int("counted", 100, "AppServices of the pass whose requests are counted")
	rounds  = flag.Int("rounds", 1, "how often both contenders are measured")
)

// workers of the operator, by default, and so of bare client-go.
const workers = 8

func TestSmoke(t *testing.T) {
	if *apps == 0 {
		t.Skip("a measurement, not a test: make bench-smoke runs it")
	}
	r := &report{Machine: machine(t), Apps: *apps}
	var bodies *templates
	t.Run("counted", func(t *testing.T) { bodies = countedPass(t, r) })
	if bodies == nil {
		t.Fatal("without the operator's requests there is nothing to compare with")
	}
	for i := range *rounds {
		bare := func(t *testing.T) { r.Bare = append(r.Bare, measureBare(t, bodies)) }
		ours := func(t *testing.T) { r.Ours = append(r.Ours, measureOurs(t)) }
		// The second one finds a warmer machine: take turns.
		first, second := bare, ours
		if i%2 == 1 {
			first, second = ours, bare
		}
		t.Run(fmt.Sprintf("round %d, first", i+1), first)
		t.Run(fmt.Sprintf("round %d, second", i+1), second)
	}
	if !t.Failed() {
		r.publish(t)
	}
}
