package bench

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// A full run takes hours, and a machine that others use throws half of its rounds away. So it is
// measured in parts, what is measured is kept, and a later sitting goes on from there: with the
// same program, on the same machine.

var resume = flag.Bool("resume", false, "go on with what out/ has of an earlier sitting, if it is of the same commit and the same machine; with -only, add that part to it")

// part is measured in one go.
type part struct {
	name string
	run  func(*testing.T, *results.Run)
}

// partsOf are the parts of a profile, in their order.
func partsOf(p profile) []part {
	out := []part{{"P1", func(t *testing.T, r *results.Run) { playRounds(t, r, p) }}}
	if p.rounds > 1 {
		out = append(out, part{"P1 without fsync", func(t *testing.T, r *results.Run) { withoutFsync(t, r, p) }})
	}
	for _, s := range liveScenarios {
		if p.life != nil && (p.thorough || !s.slow) {
			out = append(out, part{s.row, func(t *testing.T, r *results.Run) { r.Figures = append(r.Figures, s.run(t, *p.life)...) }})
		}
	}
	if len(p.sizes) > 0 {
		out = append(out, part{"P8", func(t *testing.T, r *results.Run) { measureScale(t, r, p.sizes, p.rest) }})
	}
	return out
}

// measure adds a part to a run. What a part that failed has found does not count, apart from
// rounds, each of which is whole by itself.
func (p part) measure(t *testing.T, r *results.Run) {
	begun, before := time.Now(), len(r.Figures)
	whole := t.Run(p.name, func(t *testing.T) { p.run(t, r) })
	disturbed := whole && *resume && results.Disturbed(r.Figures[before:])
	if disturbed { // and the run is not complete, so that nobody takes it for one
		results.PrintFigures(os.Stdout, r.Figures[before:])
		t.Errorf("%s does not count: the machine was not left alone (the notes say by how much); go on with -resume when it is quiet", p.name)
		whole = false
	}
	if !whole {
		r.Figures = r.Figures[:before]
	}
	r.Parts = append(r.Parts, results.Part{Name: p.name, Begun: begun.UTC().Truncate(time.Second), Minutes: time.Since(begun).Minutes(), Whole: whole, Disturbed: disturbed})
	r.Minutes = 0
	for _, done := range r.Parts {
		r.Minutes += done.Minutes
	}
	keep(t, r)
}

// resumed is a run that was begun before, or this new one.
func resumed(t *testing.T, fresh *results.Run) *results.Run {
	if !*resume {
		return fresh
	}
	if c := fresh.Machine["commit"]; c == unknownCommit || strings.HasSuffix(c, dirty) {
		t.Fatalf("what is measured is commit %s, and nobody can say whether that is what was measured before: commit it, or leave -resume out", c)
	}
	earlier, err := results.Read(file(t, fresh.Profile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh
	case err != nil:
		t.Fatal(err)
	case earlier.Profile != fresh.Profile || earlier.Apps != fresh.Apps || !reflect.DeepEqual(earlier.Machine, fresh.Machine):
		t.Fatalf("out/ has a %s run of %v, and this is a %s run of %v: there is nothing to go on with, leave -resume out", earlier.Profile, earlier.Machine, fresh.Profile, fresh.Machine)
	}
	if earlier.Counting() > 0 {
		again := burst(earlier) // made anew whenever there is another round
		earlier.Figures = slices.DeleteFunc(earlier.Figures, func(f results.Figure) bool {
			return slices.ContainsFunc(again, func(g results.Figure) bool { return g.Row == f.Row && g.Name == f.Name })
		})
	}
	return earlier
}

// What commit says of a copy without its history, and of one with changes.
const (
	unknownCommit = "unknown"
	dirty         = "-dirty"
)

// commit is what is measured. Pages are not: a run that was broken off has written its own.
func commit(t *testing.T) string {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	at, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return unknownCommit
	}
	if changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)docs"); err != nil || changed != "" {
		at += dirty
	}
	return at
}

// outFolder is where runs are kept; "" means out/ of the repository.
var outFolder string

// file is where a run is kept.
func file(t *testing.T, profile string) string {
	t.Helper()
	folder := outFolder
	if folder == "" {
		root, err := operator.Root()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(root, "out")
	}
	name := "bench.json"
	switch {
	case profile == "smoke":
		name = "bench-smoke.json"
	case *only != "" && !*resume:
		name = "bench-" + strings.ReplaceAll(*only, " ", "-") + ".json"
	}
	return filepath.Join(folder, name)
}

// keep writes down what there is so far, with the figures that rounds give.
func keep(t *testing.T, r *results.Run) {
	if flags != nil && (r.Flags == nil || !slices.Contains(flags["etcd"], "--unsafe-no-fsync")) {
		r.Flags = flags // those of the rounds, also when the last sitting had none
	}
	whole := *r
	whole.Figures = nil
	if r.Counting() > 0 {
		whole.Figures = burst(r)
	}
	whole.Figures = append(whole.Figures, r.Figures...)
	// What has no samples is no number: it is told, and is no figure.
	whole.Figures = slices.DeleteFunc(whole.Figures, func(f results.Figure) bool {
		unknown := math.IsNaN(f.Got) || math.IsInf(f.Got, 0)
		if unknown {
			t.Errorf("%s %s: nothing was measured", f.Row, f.Name)
		}
		return unknown
	})
	if err := whole.Write(file(t, r.Profile)); err != nil {
		t.Error(err)
	}
}

// publish prints what out/ has.
func publish(t *testing.T, r *results.Run) {
	written, err := results.Read(file(t, r.Profile))
	if err != nil {
		t.Fatal(err)
	}
	var missed []string
	for _, f := range written.Figures {
		if f.Verdict() == results.Missed {
			missed = append(missed, f.Row+" "+f.Name)
		}
	}
	fmt.Println()
	results.PrintFigures(os.Stdout, written.Figures)
	fmt.Printf("\n%.0f min; out/%s has everything\n", r.Minutes, filepath.Base(file(t, r.Profile)))
	if len(missed) > 0 {
		fmt.Printf("missed: %s\n", strings.Join(missed, "; "))
	}
	if r.Profile == "smoke" {
		smoke(t, written.Figures)
	}
}

// TestSittings measures in two sittings what takes one: what is whole is not measured again, and what
// was broken off is, without what it had found.
func TestSittings(t *testing.T) {
	defer func(folder string, again bool) { outFolder, *resume = folder, again }(outFolder, *resume)
	outFolder, *resume = t.TempDir(), true
	fresh := func() *results.Run {
		return &results.Run{Profile: "full", Apps: 7, Machine: map[string]string{"commit": "abc"}}
	}
	measured := map[string]int{}
	add := func(name string) part {
		return part{name, func(_ *testing.T, r *results.Run) {
			measured[name]++
			r.Figures = append(r.Figures, results.Figure{Row: name, Name: "got", Got: float64(measured[name])})
		}}
	}
	first := resumed(t, fresh())
	add("P3").measure(t, first)
	first.Parts = append(first.Parts, results.Part{Name: "P4"}) // broken off
	keep(t, first)
	second := resumed(t, fresh())
	for _, p := range []part{add("P3"), add("P4")} {
		if !second.Has(p.name) {
			p.measure(t, second)
		}
	}
	if measured["P3"] != 1 || measured["P4"] != 1 || len(second.Figures) != 2 || len(second.Parts) != 3 {
		t.Errorf("measured %v, got %+v of %+v", measured, second.Figures, second.Parts)
	}
}
