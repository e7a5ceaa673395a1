package bench

import (
	"testing"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// scenarioSize is the size of the scenarios.
type scenarioSize struct {
	burst        int           // AppServices of a burst that determines the maximum rate
	loadDuration time.Duration // of an open loop
	pairs        int           // of open loops, operator and bare client

	churnApps     int           // that exist before the churn
	churnStepTime time.Duration // at each rate
	churnFactor   float64       // factor between rates

	driftApps    int
	driftAudited int // drifts of each kind whose requests are counted

	rollouts int
	stacks   int
}

var (
	fullScenarioSize = scenarioSize{
		burst: 500, loadDuration: time.Minute, pairs: 3, churnApps: 900, churnStepTime: 20 * time.Second, churnFactor: 1.25,
		driftApps: 1000, driftAudited: 20, rollouts: 200, stacks: 1000,
	}
	smallScenarioSize = scenarioSize{
		burst: 100, loadDuration: 5 * time.Second, pairs: 1, churnApps: 60, churnStepTime: 3 * time.Second, churnFactor: 2,
		driftApps: 40, driftAudited: 5, rollouts: 10, stacks: 50,
	}
)

// operatorScenarios measure operation after the installation: arrivals, edits, drift, ordered rollouts, removals, and
// failing applications. Each has a new control plane.
var operatorScenarios = []struct {
	row  string
	run  func(*testing.T, scenarioSize) []results.Figure
	slow bool // too slow for a quick run, even with few applications
}{
	{"P3", measureReadyLatency, false}, {"P4", measureChurn, false}, {"P9", measureDrift, false}, {"P10", measureRollout, false}, {"P11", measurePruning, false},
	{"P13", measurePoison, true}, {"P14", measureWriteCost, true},
}

// noCallback is used if only the operator handles new AppServices.
func noCallback(*appsapi.AppService) {}
