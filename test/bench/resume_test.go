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

// A full run takes hours, and on a shared machine half of its rounds are invalid. It is therefore measured in parts, and
// a later run can resume it with the same commit on the same machine.

var resume = flag.Bool("resume", false, "resume the run in out/, if it is of the same commit and machine; with -only, add that part to it")

// part is measured without interruption.
type part struct {
	name string
	run  func(*testing.T, *results.Run)
}

// partsOf returns the parts of a profile in order.
func partsOf(p profile) []part {
	out := []part{{"P1", func(t *testing.T, r *results.Run) { measureRounds(t, r, p) }}}
	if p.rounds > 1 {
		out = append(out, part{"P1 without fsync", func(t *testing.T, r *results.Run) { measureWithoutFsync(t, r, p) }})
	}
	for _, s := range operatorScenarios {
		if p.scenarios != nil && (p.thorough || !s.slow) {
			out = append(out, part{s.row, func(t *testing.T, r *results.Run) { r.Figures = append(r.Figures, s.run(t, *p.scenarios)...) }})
		}
	}
	if len(p.populationSizes) > 0 {
		out = append(out, part{"P8", func(t *testing.T, r *results.Run) { measureScale(t, r, p.populationSizes, p.idleDuration) }})
	}
	return out
}

// measure adds a part to a run. Results of a failed part are dropped, except rounds, each of which is complete on its
// own.
func (p part) measure(t *testing.T, r *results.Run) {
	start, before := time.Now(), len(r.Figures)
	complete := t.Run(p.name, func(t *testing.T) { p.run(t, r) })
	disturbed := complete && *resume && results.NeedsRepeat(r.Figures[before:])
	if disturbed { // the part is not complete, so that it is repeated
		results.PrintFigures(os.Stdout, r.Figures[before:])
		t.Errorf("%s is invalid: other processes used the machine (see the notes); continue with -resume when it is idle", p.name)
		complete = false
	}
	if !complete {
		r.Figures = r.Figures[:before]
	}
	r.Parts = append(r.Parts, results.Part{Name: p.name, StartedAt: start.UTC().Truncate(time.Second), Minutes: time.Since(start).Minutes(), Complete: complete, Disturbed: disturbed})
	r.Minutes = 0
	for _, done := range r.Parts {
		r.Minutes += done.Minutes
	}
	saveRun(t, r)
}

// resumeRun returns the resumed run or the new one.
func resumeRun(t *testing.T, fresh *results.Run) *results.Run {
	if !*resume {
		return fresh
	}
	if c := fresh.Machine["commit"]; c == unknownCommit || strings.HasSuffix(c, dirtySuffix) {
		t.Fatalf("cannot resume at commit %s, which does not identify the code: commit the changes, or omit -resume", c)
	}
	earlier, err := results.Read(runFile(t, fresh.Profile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh
	case err != nil:
		t.Fatal(err)
	case earlier.Profile != fresh.Profile || earlier.Apps != fresh.Apps || !reflect.DeepEqual(earlier.Machine, fresh.Machine):
		t.Fatalf("cannot resume: out/ has a %s run of %v, this is a %s run of %v; omit -resume", earlier.Profile, earlier.Machine, fresh.Profile, fresh.Machine)
	}
	if earlier.ValidRounds() > 0 {
		recomputed := burstFigures(earlier) // recomputed with every round
		earlier.Figures = slices.DeleteFunc(earlier.Figures, func(f results.Figure) bool {
			return slices.ContainsFunc(recomputed, func(g results.Figure) bool { return g.Row == f.Row && g.Name == f.Name })
		})
	}
	return earlier
}

// Results of currentCommit without a repository and with uncommitted changes.
const (
	unknownCommit = "unknown"
	dirtySuffix   = "-dirty"
)

// currentCommit returns the commit of the code. Documentation is ignored, because an aborted run has written its pages.
func currentCommit(t *testing.T) string {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	revision, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return unknownCommit
	}
	if changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)docs"); err != nil || changed != "" {
		revision += dirtySuffix
	}
	return revision
}

// outDir is the directory of runs; "" means out/ of the repository.
var outDir string

func runFile(t *testing.T, profile string) string {
	t.Helper()
	dir := outDir
	if dir == "" {
		root, err := operator.RepoRoot()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(root, "out")
	}
	name := "bench.json"
	switch {
	case profile == "smoke":
		name = "bench-smoke.json"
	case *onlyPart != "" && !*resume:
		name = "bench-" + strings.ReplaceAll(*onlyPart, " ", "-") + ".json"
	}
	return filepath.Join(dir, name)
}

// saveRun writes the current results, with the figures of rounds.
func saveRun(t *testing.T, r *results.Run) {
	if controlPlaneFlags != nil && (r.Flags == nil || !slices.Contains(controlPlaneFlags["etcd"], "--unsafe-no-fsync")) {
		r.Flags = controlPlaneFlags // those of the rounds, also if the last run had none
	}
	merged := *r
	merged.Figures = nil
	if r.ValidRounds() > 0 {
		merged.Figures = burstFigures(r)
	}
	merged.Figures = append(merged.Figures, r.Figures...)
	// A figure without samples is an error, and is dropped.
	merged.Figures = slices.DeleteFunc(merged.Figures, func(f results.Figure) bool {
		notMeasured := math.IsNaN(f.Value) || math.IsInf(f.Value, 0)
		if notMeasured {
			t.Errorf("%s %s: no measurements", f.Row, f.Name)
		}
		return notMeasured
	})
	if err := merged.Write(runFile(t, r.Profile)); err != nil {
		t.Error(err)
	}
}

// printSummary prints the results in out/.
func printSummary(t *testing.T, r *results.Run) {
	saved, err := results.Read(runFile(t, r.Profile))
	if err != nil {
		t.Fatal(err)
	}
	var missed []string
	for _, f := range saved.Figures {
		if f.Verdict() == results.Missed {
			missed = append(missed, f.Row+" "+f.Name)
		}
	}
	fmt.Println()
	results.PrintFigures(os.Stdout, saved.Figures)
	fmt.Printf("\n%.0f min; out/%s has everything\n", r.Minutes, filepath.Base(runFile(t, r.Profile)))
	if len(missed) > 0 {
		fmt.Printf("missed: %s\n", strings.Join(missed, "; "))
	}
	if r.Profile == "smoke" {
		checkSmokeBounds(t, saved.Figures)
	}
}

// TestResumeSkipsCompletedParts resumes a run: completed parts are not measured again, an incomplete part is repeated
// without its earlier results.
func TestResumeSkipsCompletedParts(t *testing.T) {
	defer func(dir string, resumeBefore bool) { outDir, *resume = dir, resumeBefore }(outDir, *resume)
	outDir, *resume = t.TempDir(), true
	fresh := func() *results.Run {
		return &results.Run{Profile: "full", Apps: 7, Machine: map[string]string{"commit": "abc"}}
	}
	measured := map[string]int{}
	newPart := func(name string) part {
		return part{name, func(_ *testing.T, r *results.Run) {
			measured[name]++
			r.Figures = append(r.Figures, results.Figure{Row: name, Name: "got", Value: float64(measured[name])})
		}}
	}
	first := resumeRun(t, fresh())
	newPart("P3").measure(t, first)
	first.Parts = append(first.Parts, results.Part{Name: "P4"}) // incomplete
	saveRun(t, first)
	second := resumeRun(t, fresh())
	for _, p := range []part{newPart("P3"), newPart("P4")} {
		if !second.HasPart(p.name) {
			p.measure(t, second)
		}
	}
	if measured["P3"] != 1 || measured["P4"] != 1 || len(second.Figures) != 2 || len(second.Parts) != 3 {
		t.Errorf("measured %v, got %+v of %+v", measured, second.Figures, second.Parts)
	}
}
