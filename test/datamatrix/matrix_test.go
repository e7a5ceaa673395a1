// Package datamatrix runs user operations on a component with data: every ordered pair of them, and random sequences. Each
// run has its own namespace of a real control plane. A watch records every state of claims, Secrets and StatefulSets, and the whole
// history is checked.
//
// Safety rule: data is deleted only while an operation that requests deletion runs. Any other deletion, and any new
// empty volume or new password, is a violation.
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

// Without flags only a sample runs; make data-matrix runs all pairs.
var (
	allPairs    = flag.Bool("all", os.Getenv("HOLDFAST_LONG") != "", "run every pair")
	sampleShift = flag.Int("shift", int(testutil.Seed()%uint64(len(operations))), "offset between the first and the second operation of a sample")
	parallelism = flag.Int("parallelism", 24, "number of pairs that run concurrently")
	sequences   = flag.Int("sequences", 8, "number of random sequences")
	seed        = flag.Uint64("seed", testutil.Seed(), "seed of the random sequences")
	writeReport = flag.Bool("report", false, "write the table of docs/user/data-safety.md; needs -all")
)

func TestMain(m *testing.M) { harness.Main(m) }

// pair is an operation and the operation that follows it.
type pair struct{ first, second string }

func (p pair) replayCommand() string {
	return fmt.Sprintf("go test ./test/datamatrix -run 'TestMatrix/%s/%s'", p.first, p.second)
}

// selectedPairs returns the pairs to run. A sample has each operation once as the first and once as the second. A pair
// selected with -run always runs.
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

// results collects the outcomes of concurrent pairs.
type results struct {
	mu     sync.Mutex
	byPair map[pair]runOutcome
}

// runOutcome is the result of a pair or a sequence.
type runOutcome struct {
	violations int
	seconds    float64
}

func (r *results) add(p pair, o runOutcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byPair[p] = o
}

// TestMatrix checks volumes and passwords of components with any data.
func TestMatrix(t *testing.T) {
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	got, took := runMatrix(t, s, false)
	if *writeReport {
		got.writeTable(t, took)
	}
}

// TestDatabases checks rows and passwords of databases.
func TestDatabases(t *testing.T) {
	runMatrix(t, harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{}), true)
}

// runMatrix runs the selected pairs, with a stateful component or with a database.
func runMatrix(t *testing.T, s *harness.Harness, database bool) (*results, time.Duration) {
	startedAt := time.Now()
	pairs, got := selectedPairs(), &results{byPair: map[pair]runOutcome{}}
	running := newRunner(t)
	if !database {
		running.start("page", func(t *testing.T) { checkQuotedMessages(t, s) })
	}
	for _, a := range operations {
		for _, b := range operations {
			if which := (pair{a.name, b.name}); pairs[which] {
				running.start(which.first+"/"+which.second, func(t *testing.T) {
					p := newStackDriver(s.NewWorld(t))
					p.database = database
					p.run([]operation{a, b}, which.replayCommand(), func(o runOutcome) { got.add(which, o) })
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

// runner runs a limited number of subtests at a time. They are not parallel tests, which would start only when their
// parent has returned.
type runner struct {
	sync.WaitGroup
	t     *testing.T
	slots chan struct{}
}

func newRunner(t *testing.T) *runner { return &runner{t: t, slots: make(chan struct{}, *parallelism)} }

func (r *runner) start(name string, test func(*testing.T)) {
	r.slots <- struct{}{}
	r.Go(func() {
		defer func() { <-r.slots }()
		r.t.Run(name, test)
	})
}
