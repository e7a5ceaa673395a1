// Package bench measures the performance of the operator relative to bare client-go, which makes the same writes to the
// same API server on the same machine.
//
//	counted run    few applications, audit log on     requests and their bodies
//	rounds         every contender on a new control   wall time, requests, CPU, memory
//	               plane, bare before and after
//	scenarios      operation after the installation   figures with their limits
//
// Bare client-go sends the bodies that the operator sent in the counted run. In timed runs all contenders have the same
// priority level at the API server.
//
// Safety rule: only complete results are compared; all objects are counted after the measurement.
package bench

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

var (
	profileName     = flag.String("profile", "", "profile to measure: smoke, quick or full; empty skips the benchmark")
	onlyPart        = flag.String("only", "", "measure only this scenario, for example P9; P1 selects all figures of rounds, P8 all figures of a large population")
	apps            = flag.Int("apps", 0, "number of applications of a burst; 0 means that of the profile")
	contenderFilter = flag.String("contenders", "", "contenders to measure in addition to bare client-go, for example C1,C2; empty means all of the profile")
	rounds          = flag.Int("rounds", 0, "number of valid rounds; 0 means that of the profile")
)

// The default concurrency of the operator, used for bare client-go, too.
const (
	workers      = 32
	eventWorkers = 4
)

// maxAttempts is the maximum number of rounds per valid round. Half of the discarded rounds stop after a third of the
// time.
const maxAttempts = 3

// profile defines the extent of a run.
type profile struct {
	apps, auditedApps, rounds int
	peers                     []string // in addition to bare client-go
	thorough                  bool     // include explanatory measurements (bare creates, requests of each peer) and slow scenarios
	fsync                     bool
	singleRun                 bool          // the bare client and the operator run once each: sufficient for coarse limits
	maxSpread                 float64       // maximum normalized spread of the two bare runs of a round
	scenarios                 *scenarioSize // none if nil
	populationSizes           []int         // of a growing population
	idleDuration              time.Duration // duration of the idle measurement
}

// CI is always noisy, so that a smoke run discards no round; a quick run has a single short round.
var profiles = map[string]profile{
	"smoke": {apps: 150, auditedApps: 20, rounds: 1, singleRun: true, maxSpread: 2},
	"quick": {apps: 120, auditedApps: 30, rounds: 1, peers: []string{"C2", "C4t", "C5"}, fsync: true, maxSpread: 0.25, scenarios: &smallScenarioSize, populationSizes: []int{100, 300}, idleDuration: 10 * time.Second},
	"full":  {apps: 1000, auditedApps: 100, rounds: 5, peers: []string{"C2", "C3", "C4", "C4t", "C4e", "C5"}, thorough: true, fsync: true, maxSpread: 0.10, scenarios: &fullScenarioSize, populationSizes: []int{1000, 2000, 5000, 10_000}, idleDuration: 10 * time.Minute},
}

func TestBench(t *testing.T) {
	p, ok := profiles[*profileName]
	if !ok {
		t.Skip("benchmark: run make bench PROFILE=quick")
	}
	if *rounds > 0 {
		p.rounds = *rounds
	}
	if *apps > 0 {
		p.apps = *apps
	}
	machineInfo := describeMachine(t, p.fsync)
	machineInfo["commit"] = currentCommit(t)
	r := resumeRun(t, &results.Run{Profile: *profileName, Machine: machineInfo, Apps: p.apps})
	for _, part := range partsOf(p) {
		if *onlyPart == "" && !r.HasPart(part.name) || *onlyPart == part.name {
			part.measure(t, r)
		}
	}
	printSummary(t, r)
}

// measureRounds measures all contenders until there are enough valid rounds.
func measureRounds(t *testing.T, r *results.Run, p profile) {
	all := prepareContenders(t, r, p)
	if all == nil {
		t.Fatal("the operator's requests were not recorded")
	}
	for attempts := 0; r.ValidRounds() < p.rounds && attempts < maxAttempts*p.rounds; attempts++ {
		round := measureRound(t, all, p, len(r.Rounds))
		if t.Failed() {
			return
		}
		r.Rounds = append(r.Rounds, round)
		saveRun(t, r)
	}
	if n := r.ValidRounds(); n < p.rounds {
		t.Errorf("got %d valid rounds, want %d: in the others the normalized spread of the bare runs exceeded %.0f %%; continue with -resume when the machine is idle", n, p.rounds, 100*p.maxSpread)
	}
}

// measureWithoutFsync repeats P1 with an etcd that does not wait for the disk.
func measureWithoutFsync(t *testing.T, r *results.Run, p profile) {
	p.peers, p.thorough = nil, false
	all := prepareContenders(t, &results.Run{}, p)
	if len(all) < 2 {
		t.Fatal("the operator's requests were not recorded")
	}
	var wallSeconds []float64
	for i, c := range []contender{all[0], all[1], all[1], all[0]} { // bare, operator, operator, bare
		t.Run(fmt.Sprintf("%d %s", i+1, c.ID), func(t *testing.T) {
			wallSeconds = append(wallSeconds, measureContender(t, c, p.apps, false).WallSeconds)
		})
	}
	if len(wallSeconds) == 4 {
		r.Figures = append(r.Figures, results.Figure{
			Row: "P1", Name: "wall, Holdfast / " + results.BareContender + ", etcd without fsync", Value: (wallSeconds[1] + wallSeconds[2]) / (wallSeconds[0] + wallSeconds[3]),
			Note: fmt.Sprintf("one round, wall time: bare %.1f and %.1f s, Holdfast %.1f and %.1f s", wallSeconds[0], wallSeconds[3], wallSeconds[1], wallSeconds[2]),
		})
	}
}

// prepareContenders returns all contenders, bare first, and counts the requests of each. The bare ones send the
// operator's requests.
func prepareContenders(t *testing.T, r *results.Run, p profile) (all []contender) {
	var bodies *requestBodies
	count := func(c contender) {
		t.Run("count "+c.ID, func(t *testing.T) {
			events, first := countRequests(t, c, p.auditedApps)
			recordRequests(r, c.ID, events, p.auditedApps)
			if app, ok := first.(*appsapi.AppService); ok && c.ID == "C1" {
				bodies = extractBodies(t, app, events)
			}
		})
	}
	holdfast := holdfastContender()
	count(holdfast)
	if bodies == nil {
		return nil
	}
	all = []contender{bareApply(bodies), holdfast}
	if p.thorough {
		all = []contender{all[0], bareCreate(bodies), holdfast}
	}
	for _, c := range allPeers() {
		if slices.Contains(p.peers, c.ID) {
			c.reference = bodies
			all = append(all, c)
		}
	}
	if *contenderFilter != "" {
		selected := append(strings.Split(*contenderFilter, ","), results.BareContender)
		all = slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(selected, c.ID) })
	}
	r.Contenders = nil
	for _, c := range all {
		if c.ID != holdfast.ID && p.thorough && !slices.ContainsFunc(r.Requests, func(q results.Requests) bool { return q.Contender == c.ID }) {
			count(c)
		}
		r.Contenders = append(r.Contenders, c.Contender)
	}
	return all
}

func recordRequests(r *results.Run, contender string, events audit.Events, apps int) {
	r.Requests = slices.DeleteFunc(r.Requests, func(q results.Requests) bool { return q.Contender == contender }) // from an earlier run
	for _, row := range events.Count() {
		r.Requests = append(r.Requests, results.Requests{
			Contender: contender, Resource: row.Resource, Verb: row.Verb, Accepted: row.Accepted, Rejected: row.Rejected,
			PerApp: float64(row.Accepted+row.Rejected) / float64(apps),
		})
	}
}

// measureRound measures every contender. The bare client and the operator run in the order ABBA, so that a change of the
// machine's speed affects both. The others run after them, or, in every second round, before them in reverse order,
// because each runs only once. If the normalized spread of the bare runs is too large, the rest of the round is skipped.
func measureRound(t *testing.T, all []contender, p profile, number int) results.Round {
	var first, others []contender
	for _, c := range all {
		if c.ID == results.BareContender || c.ID == holdfastContender().ID {
			first = append(first, c)
		} else {
			others = append(others, c)
		}
	}
	round := results.Round{Samples: map[string][]results.Sample{}}
	run := func(c contender) {
		round.Order = append(round.Order, c.ID)
		t.Run(fmt.Sprintf("round %d/%d %s", number+1, len(round.Order), c.ID), func(t *testing.T) {
			s := measureContender(t, c, p.apps, p.fsync)
			t.Logf("%s: %.2f s, %d calls", c.Name, s.WallSeconds, s.Calls)
			round.Samples[c.ID] = append(round.Samples[c.ID], s)
		})
	}
	before, after := []contender(nil), others
	if number%2 == 1 {
		before, after = reversed(others), nil
	}
	repeats := reversed(first)
	if p.singleRun {
		repeats = nil
	}
	for _, c := range slices.Concat(before, first, repeats) {
		run(c)
	}
	bare := round.Samples[results.BareContender]
	if t.Failed() || len(bare) == 0 {
		round.Discarded = true
		return round
	}
	last := bare[len(bare)-1]
	round.Spread, round.NormalizedSpread = results.RelativeDifference(bare[0], last, results.WallTime), results.RelativeDifference(bare[0], last, results.NormalizedWall)
	if round.Discarded = round.NormalizedSpread > p.maxSpread; round.Discarded {
		fmt.Printf("round %d is discarded: spread of the bare runs %.0f %%, normalized %.0f %%\n", number+1, 100*round.Spread, 100*round.NormalizedSpread)
		return round
	}
	for _, c := range after {
		run(c)
	}
	return round
}

func reversed(all []contender) []contender {
	out := slices.Clone(all)
	slices.Reverse(out)
	return out
}

// checkSmokeBounds fails only for results that noise cannot explain: an additional request, or a large change of a time.
func checkSmokeBounds(t *testing.T, all []results.Figure) {
	const maxWallRatio = 2.5
	for _, f := range all {
		if f.Row == "P2" && f.Verdict() == results.Missed || f.Row == "P1" && f.Must != nil && f.Value > maxWallRatio {
			t.Errorf("%s %s: got %.3g, want at most %.3g", f.Row, f.Name, f.Value, *f.Must)
		}
	}
}
