package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTableCanBeReadBack(t *testing.T) {
	s := state{
		"faults": {Suite: "faults", Seed: 7, Commit: "abc1234567", Tree: "new", Minutes: 101.26},
		"calls":  {Suite: "calls", Seed: 8, Commit: "def1234567", Tree: "old", Minutes: 8, Failed: []string{"TestA/x", "TestB"}},
	}
	text := table(s, "new")
	for _, want := range []string{
		"| faults | `make faults` | 7 | abc1234567 | new | 101.3 | passed |",
		"| calls | `make calls` | 8 | def1234567 | old | 8.0 | failed: TestA/x, TestB (older code) |",
		"| misuse | `make misuse` | | | | | not run |",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	want := []result{
		{Suite: "calls", Seed: 8, Commit: "def1234567", Tree: "old", Minutes: 8, Failed: []string{"TestA/x", "TestB"}},
		{Suite: "faults", Seed: 7, Commit: "abc1234567", Tree: "new", Minutes: 101.3},
	}
	if diff := cmp.Diff(want, parseTable(text)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestStateResumesFromReportAndFile(t *testing.T) {
	dir := t.TempDir()
	file, report := filepath.Join(dir, "out", "state.json"), filepath.Join(dir, "everything.md")
	committed := state{
		"calls": {Suite: "calls", Seed: 1, Commit: "c1", Tree: "tree-c1", Minutes: 1},
	}
	if err := os.WriteFile(report, []byte(table(committed, "tree-c1")), 0o644); err != nil {
		t.Fatal(err)
	}
	local := state{"misuse": {Suite: "misuse", Seed: 3, Commit: "c2", Tree: "tree-c2", Minutes: 2, Failed: []string{"TestX"}}}
	if err := local.write(file); err != nil {
		t.Fatal(err)
	}
	got, err := readState(file, report)
	if err != nil {
		t.Fatal(err)
	}
	want := state{"calls": committed["calls"], "misuse": local["misuse"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if !got.passed("calls", "tree-c1") || got.passed("calls", "tree-c2") || got.passed("misuse", "tree-c2") || got.passed("faults", "") {
		t.Error("only a suite that passed with the same code may be skipped")
	}
}

func TestCodeTreeIgnoresDocumentation(t *testing.T) {
	code := "100644 blob 1\tengine/setup.go\n"
	if hashCode(code) != hashCode(code+"100644 blob 2\tdocs/reports/faults.md\n100644 blob 3\tREADME.md\n") {
		t.Error("documentation must not change the code tree")
	}
	if hashCode(code) == hashCode("100644 blob 2\tengine/setup.go\n") {
		t.Error("another blob must change the code tree")
	}
}

func TestExecuteReturnsFailedTests(t *testing.T) {
	cases := map[string]struct {
		script string
		want   []string
	}{
		"passes":            {"echo --- FAIL: TestIgnored", nil},
		"a test fails":      {"printf -- '--- FAIL: TestA (1s)\\n    --- FAIL: TestA/b (1s)\\n--- PASS: TestC (0s)\\n'; exit 1", []string{"TestA/b"}},
		"it does not build": {"exit 2", []string{"exit status 2"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := execute(t.Context(), []string{"sh", "-c", tc.script}, filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExecuteStopsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := execute(ctx, []string{"sleep", "60"}, filepath.Join(t.TempDir(), "log")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled: an interrupted suite has no result", err)
	}
}

func TestSuitesAreMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range suites {
		if !strings.Contains(string(makefile), "\n"+s.target+":") {
			t.Errorf("suite %s: the Makefile has no target %s", s.name, s.target)
		}
		if s.minutes > int(limit.Minutes()) {
			t.Errorf("suite %s takes %d minutes: split it", s.name, s.minutes)
		}
	}
	if _, err := selectSuites("calls,nonsense"); err == nil {
		t.Error("an unknown suite must be refused")
	}
}

func TestRecordKeepsResultsOfOtherRuns(t *testing.T) {
	dir := t.TempDir()
	file, report := filepath.Join(dir, "state.json"), filepath.Join(dir, "report.md")
	var wg sync.WaitGroup
	for _, s := range suites {
		wg.Go(func() {
			if err := record(file, report, result{Suite: s.name, Tree: "t", Seed: 7, Commit: "c"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(report)
	if err != nil || strings.Contains(string(text), "| not run |") {
		t.Errorf("a result is missing (%v):\n%s", err, text)
	}
}
