package reconcile

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	faults "github.com/holdfast-dev/holdfast/test/faults/report"
)

// interleaveSeed is the seed of the walks.
const interleaveSeed = 20260101

var replayFlag = flag.String("interleave.path", "", "replay one path: the name of its scenario, a colon, and its steps")

// Limits for faults on one path: low for the exhaustive search, higher for long walks. deep is the
// minimum length of a walk, if its scenario lasts that long.
var (
	searchBudget = budget{crashes: 2, lostResponses: 1, ticks: 1}
	walkBudget   = budget{crashes: 3, lostResponses: 3, ticks: 3, resyncs: 30}
)

const (
	longWalkSteps = 60
	maxWalkSteps  = 1000
)

// TestInterleavings runs the reconcilers of both kinds, simulated Kubernetes controllers and users
// in many orders, with lagging caches, crashes and lost responses. The rules must hold in every
// state, and every path must converge to the same final state.
func TestInterleavings(t *testing.T) {
	if *replayFlag != "" {
		replayPath(t, *replayFlag)
		return
	}
	states, walks, minStates := 500, 8, 10_000
	switch {
	case raceDetector: // looks for races; make test-api runs it again without the race detector
		states, walks, minStates = 40, 1, 0
	case os.Getenv("HOLDFAST_LONG") != "":
		states, walks, minStates = 6000, 80, 100_000
	}
	start := time.Now()
	var mu sync.Mutex
	var searches []*search
	var failures []string
	t.Run("inputs", func(t *testing.T) {
		for _, in := range scenarios {
			t.Run(in.name, func(t *testing.T) {
				t.Parallel()
				s := newSearch(in, searchBudget, interleaveSeed, injectedBug{})
				err := s.run(states, walks, walkBudget)
				t.Log(s)
				mu.Lock()
				defer mu.Unlock()
				searches = append(searches, s)
				if err != nil {
					line := fmt.Sprintf("go test ./internal/reconcile -run TestInterleavings -interleave.path='%s: %s'", in.name, violationPath(err))
					failures = append(failures, line)
					t.Errorf("%v\nto replay: %s", err, line)
				}
			})
		}
	})
	total := &search{scenario: &scenario{name: "all"}, visited: map[[32]byte]bool{}}
	for _, s := range searches {
		total.add(s)
	}
	t.Logf("%s, %.1f s", total, time.Since(start).Seconds())
	if len(failures) == 0 && total.states < minStates {
		t.Errorf("only %d states were visited", total.states)
	}
	faults.WriteTimed(t, start, faults.Row{Test: "8 interleavings", Generated: len(scenarios), Run: len(searches), Failed: len(failures),
		Seed: interleaveSeed, Measured: total.String(), Failures: failures})
}

// run performs the whole search of a scenario.
func (s *search) run(states, walks int, b budget) error {
	if err := s.breadthFirst(states, 50); err != nil {
		return err
	}
	for range walks {
		if err := s.walk(b, maxWalkSteps); err != nil {
			return err
		}
	}
	return nil
}

func violationPath(err error) string {
	var f *ruleViolation
	if errors.As(err, &f) {
		return pathText(f.path)
	}
	return ""
}

// replayPath replays one path and reports what it finds.
func replayPath(t *testing.T, text string) {
	name, path, _ := strings.Cut(text, ":")
	for _, in := range scenarios {
		if in.name != name {
			continue
		}
		w := newWorld(in, budget{crashes: 100, lostResponses: 100, ticks: 100, resyncs: 100}, injectedBug{})
		for part := range strings.SplitSeq(path, ",") {
			st, err := parseStep(part)
			if err != nil {
				t.Fatal(err)
			}
			w.doStep(st)
			t.Logf("%s %v", st, w.lastErr)
			if w.violation != "" {
				t.Fatal(w.violation)
			}
		}
		t.Logf("%s\n%s", w.notConverged(), w.finalStateText())
		return
	}
	t.Fatalf("there is no scenario %q", name)
}

// TestInterleavingsAreReproducible runs the same walk twice: only the seed decides.
func TestInterleavingsAreReproducible(t *testing.T) {
	for _, in := range scenarios {
		var states [2]map[[32]byte]bool
		for i := range states {
			s := newSearch(in, searchBudget, interleaveSeed, injectedBug{})
			if err := s.walk(walkBudget, maxWalkSteps); err != nil {
				t.Fatalf("%s: %v", in.name, err)
			}
			states[i] = s.visited
		}
		for key := range states[0] {
			if !states[1][key] || len(states[0]) != len(states[1]) {
				t.Fatalf("%s: two walks with one seed differ", in.name)
			}
		}
	}
}

// TestInterleavingsFindInjectedBugs searches with deliberate bugs.
func TestInterleavingsFindInjectedBugs(t *testing.T) {
	cases := map[string]struct {
		scenario string
		budget   budget
		bug      injectedBug
		want     string
	}{
		"applies without preconditions":                {"name conflict", budget{}, injectedBug{applyWithoutPreconditions: true}, "the object is not controlled by"},
		"deletes without preconditions and live reads": {"return", budget{}, injectedBug{deleteWithoutPreconditions: true, liveReadsFromCache: true}, "the spec still declares it"},
		"trusts an outdated list":                      {"edit", budget{crashes: 1}, injectedBug{liveReadsFromCache: true}, "overwrites generation"},
		"misses updates of a Deployment":               {"service", budget{}, injectedBug{dropUpdatesOf: "Deployment"}, "converged, but AppService/web"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			for _, in := range append(scenarios, bugScenarios...) {
				if in.name != tc.scenario {
					continue
				}
				s := newSearch(in, tc.budget, interleaveSeed, tc.bug)
				err := s.run(500, 1000, tc.budget)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("not found: %v, %s", err, s)
				}
				t.Logf("found after %d states, %.1f s: %v\n%s", s.states, time.Since(start).Seconds(), firstLine(err), violationPath(err))
				return
			}
			t.Fatalf("there is no scenario %q", tc.scenario)
		})
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
