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

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// Without flags a sample is played, as one test among others; make data-matrix plays all.
var (
	all     = flag.Bool("all", os.Getenv("HOLDFAST_LONG") != "", "play every pair")
	shift   = flag.Int("shift", 5, "of a sample: which operation follows which")
	abreast = flag.Int("abreast", 24, "pairs that are played at the same time")
	report  = flag.Bool("report", false, "write the table of docs/user/data-safety.md; needs -all")
)

func TestMain(m *testing.M) { stage.Main(m) }

// pair is an operation and the one that follows it.
type pair struct{ first, second string }

func (p pair) replay() string {
	return fmt.Sprintf("go test ./test/datamatrix -run 'TestMatrix/%s/%s'", p.first, p.second)
}

// chosen are the pairs to play. A sample has each operation once as the first and once as
// the second; who names one with -run gets it in any case.
func chosen() map[pair]bool {
	out := map[pair]bool{}
	run := flag.Lookup("test.run").Value.String()
	everything := *all || strings.Contains(run, "/")
	for i, a := range operations {
		for j, b := range operations {
			if everything || j == (i+*shift)%len(operations) {
				out[pair{a.name, b.name}] = true
			}
		}
	}
	return out
}

// results collects from many pairs at the same time.
type results struct {
	mu sync.Mutex
	of map[pair]outcome
}

type outcome struct {
	violations int
	seconds    float64
}

func (r *results) add(p pair, o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of[p] = o
}

// TestMatrix is about volumes and passwords of anything.
func TestMatrix(t *testing.T) {
	s := stage.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	got, took := matrix(t, s, false)
	if *report {
		got.write(t, took)
	}
}

// TestDatabases is about rows, and whether the password still opens.
func TestDatabases(t *testing.T) {
	matrix(t, stage.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{}), true)
}

// matrix plays the chosen pairs, with a component that has any data, or with a database.
func matrix(t *testing.T, s *stage.Stage, database bool) (*results, time.Duration) {
	begun := time.Now()
	pairs, got := chosen(), &results{of: map[pair]outcome{}}
	// Not parallel tests: those could begin only when this function has returned.
	var running sync.WaitGroup
	turns := make(chan struct{}, *abreast)
	begin := func(name string, test func(*testing.T)) {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			t.Run(name, test)
		})
	}
	if !database {
		begin("page", func(t *testing.T) { quotesWhatIsSaid(t, s) })
	}
	for _, a := range operations {
		for _, b := range operations {
			if which := (pair{a.name, b.name}); pairs[which] {
				begin(which.first+"/"+which.second, func(t *testing.T) {
					p := newPlayer(s.World(t))
					p.database = database
					p.play(a, b, got)
				})
			}
		}
	}
	running.Wait()
	s.NeedsNoMore(t)
	took := time.Since(begun)
	t.Log(got.figures(took))
	return got, took
}
