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
	profileName = flag.String("profile", "", "what to measure: smoke, quick or full; nothing if empty")
	only        = flag.String("only", "", "one scenario alone, for example P9; P1 stands for all that rounds tell, P8 for all of a large population")
	apps        = flag.Int("apps", 0, "how many applications a burst has; 0 means those of the profile")
	among       = flag.String("contenders", "", "who is measured beside bare client-go, for example C1,C2; all of the profile if empty")
	rounds      = flag.Int("rounds", 0, "how many rounds have to count; 0 means those of the profile")
)

// What the operator does at the same time by default, and so bare client-go.
const (
	workers      = 32
	eventsAtOnce = 4
)

// maxTries is how many rounds may be played for one that counts. Every second one that does not
// takes a third of the time.
const maxTries = 3

// profile is how much is measured.
type profile struct {
	apps, counted, rounds int
	peers                 []string // beside bare client-go
	thorough              bool     // with what only explains (bare creates, what each peer asks for), and with slow scenarios
	fsync                 bool
	once                  bool          // the bare engine and the operator run once each: enough for what is far off
	spread                float64       // how far the two runs of the bare engine in a round may be apart, at an equal pace of the machine
	life                  *liveSize     // none if nil
	sizes                 []int         // of a population that grows
	rest                  time.Duration // that it is left alone for
}

// CI is never quiet, so that a smoke test throws nothing away; a quick run is one round that
// takes seconds, of which little is left to throw away.
var profiles = map[string]profile{
	"smoke": {apps: 150, counted: 20, rounds: 1, once: true, spread: 2},
	"quick": {apps: 120, counted: 30, rounds: 1, peers: []string{"C2", "C4t", "C5"}, fsync: true, spread: 0.25, life: &smallLife, sizes: []int{100, 300}, rest: 10 * time.Second},
	"full":  {apps: 1000, counted: 100, rounds: 5, peers: []string{"C2", "C3", "C4", "C4t", "C4e", "C5"}, thorough: true, fsync: true, spread: 0.10, life: &fullLife, sizes: []int{1000, 2000, 5000, 10_000}, rest: 10 * time.Minute},
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
	on := machine(t, p.fsync)
	on["commit"] = commit(t)
	r := resumed(t, &results.Run{Profile: *profileName, Machine: on, Apps: p.apps})
	for _, part := range partsOf(p) {
		if *only == "" && !r.Has(part.name) || *only == part.name {
			part.measure(t, r)
		}
	}
	publish(t, r)
}

// playRounds measures all contenders, until as many rounds count as have to.
func playRounds(t *testing.T, r *results.Run, p profile) {
	all := contenders(t, r, p)
	if all == nil {
		t.Fatal("without the operator's requests there is nothing to compare with")
	}
	for tried := 0; r.Counting() < p.rounds && tried < maxTries*p.rounds; tried++ {
		round := playRound(t, all, p, len(r.Rounds))
		if t.Failed() {
			return
		}
		r.Rounds = append(r.Rounds, round)
		keep(t, r)
	}
	if n := r.Counting(); n < p.rounds {
		t.Errorf("%d rounds of %d count: in the others the two bare runs were more than %.0f %% apart, at an equal pace of the machine; go on with -resume when the machine is quiet", n, p.rounds, 100*p.spread)
	}
}

// withoutFsync is P1 once more, where no disk is waited for.
func withoutFsync(t *testing.T, r *results.Run, p profile) {
	p.peers, p.thorough = nil, false
	all := contenders(t, &results.Run{}, p)
	if len(all) < 2 {
		t.Fatal("without the operator's requests there is nothing to compare with")
	}
	var took []float64
	for i, c := range []contender{all[0], all[1], all[1], all[0]} { // bare, ours, ours, bare
		t.Run(fmt.Sprintf("%d %s", i+1, c.ID), func(t *testing.T) { took = append(took, measure(t, c, p.apps, false).WallSeconds) })
	}
	if len(took) == 4 {
		r.Figures = append(r.Figures, results.Figure{
			Row: "P1", Name: "wall, Holdfast / " + results.Bare + ", etcd without fsync", Got: (took[1] + took[2]) / (took[0] + took[3]),
			Note: fmt.Sprintf("one round, by the clock: bare %.1f and %.1f s, Holdfast %.1f and %.1f s", took[0], took[3], took[1], took[2]),
		})
	}
}

// contenders are all that are measured, bare first. Each is counted once; the operator's own
// requests are what the bare ones send.
func contenders(t *testing.T, r *results.Run, p profile) (all []contender) {
	var bodies *templates
	count := func(c contender) {
		t.Run("count "+c.ID, func(t *testing.T) {
			events, first := countRequests(t, c, p.counted)
			note(r, c.ID, events, p.counted)
			if app, ok := first.(*appsapi.AppService); ok && c.ID == "C1" {
				bodies = bodiesOf(t, app, events)
			}
		})
	}
	holdfast := ours()
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
			c.like = bodies
			all = append(all, c)
		}
	}
	if *among != "" {
		chosen := append(strings.Split(*among, ","), results.Bare)
		all = slices.DeleteFunc(all, func(c contender) bool { return !slices.Contains(chosen, c.ID) })
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

func note(r *results.Run, contender string, events audit.Events, apps int) {
	r.Requests = slices.DeleteFunc(r.Requests, func(q results.Requests) bool { return q.Contender == contender }) // of an earlier sitting
	for _, row := range events.Count() {
		r.Requests = append(r.Requests, results.Requests{
			Contender: contender, Resource: row.Resource, Verb: row.Verb, Accepted: row.Accepted, Refused: row.Refused,
			PerApp: float64(row.Accepted+row.Refused) / float64(apps),
		})
	}
}

// playRound measures every contender. The bare engine and the operator run as in ABBA, so that a
// machine that becomes faster or slower does so for both. The others come after them, and in every
// second round before them and in the opposite order: with one run each, they have no other way to
// share what the machine does. If the two bare runs differ by more than the pace of the machine, the
// rest of the round is not worth its time.
func playRound(t *testing.T, all []contender, p profile, number int) results.Round {
	var first, rest []contender
	for _, c := range all {
		if c.ID == results.Bare || c.ID == ours().ID {
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	round := results.Round{Samples: map[string][]results.Sample{}}
	play := func(c contender) {
		round.Order = append(round.Order, c.ID)
		t.Run(fmt.Sprintf("round %d/%d %s", number+1, len(round.Order), c.ID), func(t *testing.T) {
			s := measure(t, c, p.apps, p.fsync)
			t.Logf("%s: %.2f s, %d calls", c.Name, s.WallSeconds, s.Calls)
			round.Samples[c.ID] = append(round.Samples[c.ID], s)
		})
	}
	before, after := []contender(nil), rest
	if number%2 == 1 {
		before, after = backwards(rest), nil
	}
	again := backwards(first)
	if p.once {
		again = nil
	}
	for _, c := range slices.Concat(before, first, again) {
		play(c)
	}
	bare := round.Samples[results.Bare]
	if t.Failed() || len(bare) == 0 {
		round.Thrown = true
		return round
	}
	last := bare[len(bare)-1]
	round.Spread, round.SpreadAtPace = results.Apart(bare[0], last, results.Wall), results.Apart(bare[0], last, results.AtPace)
	if round.Thrown = round.SpreadAtPace > p.spread; round.Thrown {
		fmt.Printf("round %d is thrown away: its bare runs are %.0f %% apart, at an equal pace of the machine %.0f %%\n", number+1, 100*round.Spread, 100*round.SpreadAtPace)
		return round
	}
	for _, c := range after {
		play(c)
	}
	return round
}

func backwards(all []contender) []contender {
	out := slices.Clone(all)
	slices.Reverse(out)
	return out
}

// smoke fails where no noise of a machine can be the reason: a request too many, or a time that
// is far from what it was.
func smoke(t *testing.T, all []results.Figure) {
	const far = 2.5
	for _, f := range all {
		if f.Row == "P2" && f.Verdict() == results.Missed || f.Row == "P1" && f.Must != nil && f.Got > far {
			t.Errorf("%s %s: %.3g, where at most %.3g is wanted", f.Row, f.Name, f.Got, *f.Must)
		}
	}
}
