package bench

import (
	"testing"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// liveSize is how much of everything there is.
type liveSize struct {
	burst int           // AppServices that tell how many per second are too many
	loop  time.Duration // of an open loop
	pairs int           // of open loops, ours and a bare one

	churnApps int           // that are there before the churn
	churnStep time.Duration // at each rate
	churnUp   float64       // from one rate to the next

	driftApps    int
	driftCounted int // drifts of each kind whose requests are counted

	rollouts int
	stacks   int
}

var (
	fullLife = liveSize{
		burst: 500, loop: time.Minute, pairs: 3, churnApps: 900, churnStep: 20 * time.Second, churnUp: 1.25,
		driftApps: 1000, driftCounted: 20, rollouts: 200, stacks: 1000,
	}
	smallLife = liveSize{
		burst: 100, loop: 5 * time.Second, pairs: 1, churnApps: 60, churnStep: 3 * time.Second, churnUp: 2,
		driftApps: 40, driftCounted: 5, rollouts: 10, stacks: 50,
	}
)

// liveScenarios are what happens to applications while they live: arrivals, edits, drift,
// ordered rollouts, removals, and neighbours that always fail. Each has a fresh control plane.
var liveScenarios = []struct {
	row  string
	run  func(*testing.T, liveSize) []results.Figure
	slow bool // takes too long for a look in between, however few applications there are
}{
	{"P3", readyLatency, false}, {"P4", churning, false}, {"P9", drifting, false}, {"P10", rollingOut, false}, {"P11", pruning, false},
	{"P13", poisoning, true}, {"P14", pricing, true},
}

// nobody is who has to be told of an AppService when the operator finds it by itself.
func nobody(*appsapi.AppService) {}
