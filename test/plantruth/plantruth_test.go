// Package plantruth holds what kubectl holdfast plan tells against what the operator then
// does: random edits of applications are planned, then applied with kubectl, and everything
// that the operator wrote, by the API server's own log, has to be what the plan said: the
// same objects, the same fields with the same values, the same pods replaced.
package plantruth

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli/plan"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// Without flags a sample is played, as one test among others; make plan-truth plays all.
var (
	edits = flag.Int("edits", 0, "how many edits; 0 means 15, or 100 with HOLDFAST_LONG=1")
	seed  = flag.Uint64("seed", 1, "another seed makes other applications and other edits")
	only  = flag.Int("only", -1, "play only this application")
	shown = flag.Bool("show", false, "print every plan")
)

func TestMain(m *testing.M) { stage.Main(m) }

// tally counts.
type tally struct {
	mu                                 sync.Mutex
	edits, matches, refusals           int
	changes, restarts, refused, anew   int
	deleted, growing, retained, purged int
}

// add counts what was told.
func (s *tally) add(t told) {
	for _, c := range t.Changes {
		for _, n := range []struct {
			count *int
			is    bool
		}{
			{&s.changes, c.Action != plan.Unchanged}, {&s.restarts, c.Restarts > 0}, {&s.refused, c.Action == plan.Refused},
			{&s.anew, c.Action == plan.Recreated}, {&s.deleted, c.Action == plan.Deleted}, {&s.growing, c.Data == "Grows"},
			{&s.retained, c.Data == "Retained"}, {&s.purged, c.Data == "Deleted"},
		} {
			if n.is {
				*n.count++
			}
		}
	}
}

func TestPlanTellsTheTruth(t *testing.T) {
	n, length := 15, 3 // edits, and how many of them one application gets
	if os.Getenv("HOLDFAST_LONG") != "" {
		n, length = 100, 5
	}
	if *edits > 0 {
		n = *edits
	}
	begun := time.Now()
	s := stage.New(t, nil, operator.Options{Fast: true})
	ground := newGround(t, s)
	var sum tally
	t.Run("edits", func(t *testing.T) {
		for i := range (n + length - 1) / length {
			if *only >= 0 && i != *only {
				continue
			}
			count := min(length, n-i*length)
			t.Run(fmt.Sprintf("application %d of seed %d", i, *seed), func(t *testing.T) {
				t.Parallel()
				turn := ground.turn()
				defer turn()
				play(t, ground, i, count, &sum)
			})
		}
	})
	if *only < 0 {
		t.Run("answers", func(t *testing.T) { answers(t, ground) })
	}
	s.NeedsNoMore(t)
	t.Logf("seed %d: of %d edits %d came true in %s: %d changes of objects, of them %d deleted, %d made anew and %d refused; %d workloads restarted; "+
		"data: %d grew, %d retained, %d deleted; %d edits refused by the API server", *seed, sum.edits, sum.matches, time.Since(begun).Round(time.Second),
		sum.changes, sum.deleted, sum.anew, sum.refused, sum.restarts, sum.growing, sum.retained, sum.purged, sum.refusals)
	if *only < 0 && sum.edits != n {
		t.Errorf("%d edits were played, want %d", sum.edits, n)
	}
}

// play makes an application and edits it.
func play(t *testing.T, ground *ground, number, count int, sum *tally) {
	w := ground.world(t)
	r := rand.New(rand.NewPCG(*seed, uint64(number)))
	subject := newSubject(r, number)
	w.create(subject)
	for i := range count {
		next, what := subject.edited(r)
		story := fmt.Sprintf("edit %d: %s", i+1, strings.Join(what, "; "))
		mismatches, told := w.holds(next)
		if *shown {
			t.Logf("%s\n%s", story, told.text)
		}
		sum.mu.Lock()
		sum.edits++
		sum.add(told)
		if told.refused != "" {
			sum.refusals++
		}
		if len(mismatches) == 0 {
			sum.matches++
		}
		sum.mu.Unlock()
		if len(mismatches) > 0 {
			t.Errorf("%s\n%s\n\nwas told:\n%s\nmanifest before:\n%s\nmanifest after:\n%s", story, strings.Join(mismatches, "\n"), told.text, subject.yaml(), next.yaml())
		}
		if told.refused == "" {
			subject = next
		}
	}
}
