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

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// Without flags a sample is played, as one test among others; make plan-truth plays all.
var (
	edits  = flag.Int("edits", 0, "how many edits; 0 means 15, or 100 with HOLDFAST_LONG=1")
	seed   = flag.Uint64("seed", 1, "another seed makes other applications and other edits")
	only   = flag.Int("only", -1, "play only this application")
	shown  = flag.Bool("show", false, "print every plan")
	length = 5 // edits of one application
)

func TestMain(m *testing.M) { stage.Main(m) }

// tally counts.
type tally struct {
	mu                       sync.Mutex
	edits, matches, refusals int
	changes, restarts        int
}

func TestPlanTellsTheTruth(t *testing.T) {
	n := *edits
	if n == 0 {
		n = 15
		if os.Getenv("HOLDFAST_LONG") != "" {
			n = 100
		}
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
	s.NeedsNoMore(t)
	t.Logf("seed %d: of %d edits %d came true (%d changes of objects, %d restarts of workloads; %d edits refused by both) in %s",
		*seed, sum.edits, sum.matches, sum.changes, sum.restarts, sum.refusals, time.Since(begun).Round(time.Second))
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
		sum.changes += told.changes()
		sum.restarts += told.restarts()
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
