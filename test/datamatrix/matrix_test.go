// Package datamatrix does to a component with data whatever people do to one, and then
// something else: every ordered pair of twelve operations, each on a real control plane and
// in a namespace of its own. A watch that was there before the first operation sees every
// state of claims, Secrets and StatefulSets, and what it saw is judged as a whole.
//
// Safety rule: what may be deleted is said by the operation that asks for it, for the time
// until it ends; everything else that goes, or begins anew, is a violation.
package datamatrix

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// Without flags a sample is played, as one test among others; make data-matrix plays all.
var (
	allPairs    = flag.Bool("all", os.Getenv("HOLDFAST_LONG") != "", "play every pair")
	sampleShift = flag.Int("shift", int(testutil.Seed()%12), "of a sample: which operation follows which")
	parallelism = flag.Int("abreast", 24, "pairs that are played at the same time")
	writeReport = flag.Bool("report", false, "write the table of docs/user/data-safety.md; needs -all")
)

func TestMain(m *testing.M) { harness.Main(m) }

// pair is an operation and the one that follows it.
type pair struct{ first, second string }

func (p pair) replayCommand() string {
	return fmt.Sprintf("go test ./test/datamatrix -run 'TestMatrix/%s/%s'", p.first, p.second)
}

// selectedPairs are the pairs to play. A sample has each operation once as the first and once as
// the second; who names one with -run gets it in any case.
func selectedPairs() map[pair]bool {
	out := map[pair]bool{}
	run := flag.Lookup("test.run").Value.String()
	everything := *allPairs || strings.Contains(run, "/")
	for i, a := range operations {
		for j, b := range operations {
			if everything || j == (i+*sampleShift)%len(operations) {
				out[pair{a.name, b.name}] = true
			}
		}
	}
	return out
}

// results collects from many pairs at the same time.
type results struct {
	mu     sync.Mutex
	byPair map[pair]pairOutcome
}

type pairOutcome struct {
	violations int
	seconds    float64
}

func (r *results) add(p pair, o pairOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byPair[p] = o
}

// TestMatrix is about volumes and passwords of anything.
func TestMatrix(t *testing.T) {
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	got, took := runMatrix(t, s, false)
	if *writeReport {
		got.writeTable(t, took)
	}
}

// TestDatabases is about rows, and whether the password still opens.
func TestDatabases(t *testing.T) {
	runMatrix(t, harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{}), true)
}

// runMatrix plays the chosen pairs, with a component that has any data, or with a database.
func runMatrix(t *testing.T, s *harness.Harness, database bool) (*results, time.Duration) {
	startedAt := time.Now()
	pairs, got := selectedPairs(), &results{byPair: map[pair]pairOutcome{}}
	// Not parallel tests: those could begin only when this function has returned.
	var running sync.WaitGroup
	slots := make(chan struct{}, *parallelism)
	start := func(name string, test func(*testing.T)) {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			t.Run(name, test)
		})
	}
	if !database {
		start("page", func(t *testing.T) { checkQuotedMessages(t, s) })
	}
	for _, a := range operations {
		for _, b := range operations {
			if which := (pair{a.name, b.name}); pairs[which] {
				start(which.first+"/"+which.second, func(t *testing.T) {
					p := newStackDriver(s.NewWorld(t))
					p.database = database
					p.runPair(a, b, got)
				})
			}
		}
	}
	running.Wait()
	s.ExpectNoForbiddenRequests(t)
	took := time.Since(startedAt)
	t.Log(got.summary(took))
	return got, took
}
