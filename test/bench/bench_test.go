// Package bench measures how fast the operator is, as a ratio: bare client-go making the
// same writes to the same API server on the same machine is the limit.
//
//	counted pass   few applications, audit log on     which writes, and what is in them
//	rounds         every contender, a fresh control   wall time, calls, CPU, memory
//	               plane each, bare around ours
//	scenarios      what an operator meets later       figures beside their bounds
//
// The bodies that bare client-go sends are those of the operator, taken from the counted
// pass. In timed runs all contenders have the same level of priority at the API server.
//
// Safety rule: nothing is compared that did not end complete; every object is counted
// after the clock has stopped.
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
	profileName     = flag.String("profile", "", "what to measure: smoke, quick or full; nothing if empty")
	onlyPart        = flag.String("only", "", "one scenario alone, for example P9; P1 stands for all that rounds tell, P8 for all of a large population")
	apps            = flag.Int("apps", 0, "how many applications a burst has; 0 means those of the profile")
	contenderFilter = flag.String("contenders", "", "who is measured beside bare client-go, for example C1,C2; all of the profile if empty")
	rounds          = flag.Int("rounds", 0, "how many rounds have to count; 0 means those of the profile")
)

// What the operator does at the same time by default, and so bare client-go.
const (
	workers      = 32
	eventWorkers = 4
)

// maxAttempts is how many rounds may be played for one that counts. Every second one that does not
// takes a third of the time.
const maxAttempts = 3

// profile is how much is measured.
type profile struct {
	apps, auditedApps, rounds int
	peers                     []string // beside bare client-go
	thorough                  bool     // with what only explains (bare creates, what each peer asks for), and with slow scenarios
	fsync                     bool
	singleRun                 bool          // the bare engine and the operator run once each: enough for what is far off
	maxSpread                 float64       // how far the two runs of the bare engine in a round may be apart, at an equal pace of the machine
	scenarios                 *scenarioSize // none if nil
	populationSizes           []int         // of a population that grows
	idleDuration              time.Duration // that it is left alone for
}

// CI is never quiet, so that a smoke test throws nothing away; a quick run is one round that
// takes seconds, of which little is left to throw away.
var profiles = map[string]profile{
	"smoke": {apps: 150, auditedApps: 20, rounds: 1, singleRun: true, maxSpread: 2},
	"quick": {apps: 120, auditedApps: 30, rounds: 1, peers: []string{"C2", "C4t", "C5"}, fsync: true, maxSpread: 0.25, scenarios: &smallScenarioSize, populationSizes: []int{100, 300}, idleDuration: 10 * time.Second},
	"full":  {apps: 1000, auditedApps: 100, rounds: 5, peers: []string{"C2", "C3", "C4", "C4t", "C4e", "C5"}, thorough: true, fsync: true, maxSpread: 0.10, scenarios: &fullScenarioSize, populationSizes: []int{1000, 2000, 5000, 10_000}, idleDuration: 10 * time.Minute},
}

func TestBench(t *testing.T) {
	p, ok := profiles[*profileName]
	if !ok {
		t.Skip("a measurement, not a test: make bench PROFILE=quick runs it")
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

// measureRounds measures all contenders, until as many rounds count as have to.
func measureRounds(t *testing.T, r *results.Run, p profile) {
	all := prepareContenders(t, r, p)
	if all == nil {
		t.Fatal("without the operator's requests there is nothing to compare with")
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
		t.Errorf("%d rounds of %d count: in the others the two bare runs were more than %.0f %% apart, at an equal pace of the machine; go on with -resume when the machine is quiet", n, p.rounds, 100*p.maxSpread)
	}
}

// measureWithoutFsync is P1 once more, where no disk is waited for.
func measureWithoutFsync(t *testing.T, r *results.Run, p profile) {
	p.peers, p.thorough = nil, false
	all := prepareContenders(t, &results.Run{}, p)
	if len(all) < 2 {
		t.Fatal("without the operator's requests there is nothing to compare with")
	}
	var wallSeconds []float64
	for i, c := range []contender{all[0], all[1], all[1], all[0]} { // bare, ours, ours, bare
		t.Run(fmt.Sprintf("%d %s", i+1, c.ID), func(t *testing.T) {
			wallSeconds = append(wallSeconds, measureContender(t, c, p.apps, false).WallSeconds)
		})
	}
	if len(wallSeconds) == 4 {
		r.Figures = append(r.Figures, results.Figure{
			Row: "P1", Name: "wall, Holdfast / " + results.BareContender + ", etcd without fsync", Value: (wallSeconds[1] + wallSeconds[2]) / (wallSeconds[0] + wallSeconds[3]),
			Note: fmt.Sprintf("one round, by the clock: bare %.1f and %.1f s, Holdfast %.1f and %.1f s", wallSeconds[0], wallSeconds[3], wallSeconds[1], wallSeconds[2]),
		})
	}
}

// prepareContenders are all that are measured, bare first. Each is counted once; the operator's own
// requests are what the bare ones send.
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
	r.Requests = slices.DeleteFunc(r.Requests, func(q results.Requests) bool { return q.Contender == contender }) // of an earlier sitting
	for _, row := range events.Count() {
		r.Requests = append(r.Requests, results.Requests{
			Contender: contender, Resource: row.Resource, Verb: row.Verb, Accepted: row.Accepted, Rejected: row.Rejected,
			PerApp: float64(row.Accepted+row.Rejected) / float64(apps),
		})
	}
}

// measureRound measures every contender. The bare engine and the operator run as in ABBA, so that a
// machine that becomes faster or slower does so for both. The others come after them, and in every
// second round before them and in the opposite order: with one run each, they have no other way to
// share what the machine does. If the two bare runs differ by more than the pace of the machine, the
// rest of the round is not worth its time.
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
		fmt.Printf("round %d is thrown away: its bare runs are %.0f %% apart, at an equal pace of the machine %.0f %%\n", number+1, 100*round.Spread, 100*round.NormalizedSpread)
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

// checkSmokeBounds fails where no noise of a machine can be the reason: a request too many, or a time that
// is far from what it was.
func checkSmokeBounds(t *testing.T, all []results.Figure) {
	const maxWallRatio = 2.5
	for _, f := range all {
		if f.Row == "P2" && f.Verdict() == results.Missed || f.Row == "P1" && f.Must != nil && f.Value > maxWallRatio {
			t.Errorf("%s %s: %.3g, where at most %.3g is wanted", f.Row, f.Name, f.Value, *f.Must)
		}
	}
}
