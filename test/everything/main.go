// Command everything runs every long test suite in full, one after the other, and writes one
// table. It continues after failures and can be interrupted: suites that passed with the same
// code are skipped by the next run.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var (
	names  = flag.String("suites", "", "comma-separated names of the suites to run; empty means all")
	seed   = flag.Uint("seed", 0, "seed of every suite; 0 means a new random one for each")
	dir    = flag.String("dir", "out/everything", "directory for logs and state")
	report = flag.String("report", "docs/reports/everything.md", "file for the table")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "everything:", err)
		os.Exit(2)
	}
	if failed > 0 {
		fmt.Fprintf(os.Stderr, "%d suites failed: see %s and the logs in %s\n", failed, *report, *dir)
		os.Exit(1)
	}
}

func run(ctx context.Context) (failed int, err error) {
	selected, err := selectSuites(*names)
	if err != nil {
		return 0, err
	}
	commit, err := headCommit()
	if err != nil {
		return 0, err
	}
	tree, err := codeTree(commit)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(*dir, "state.json")
	s, err := readState(file, *report)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(*dir, 0o755); err != nil {
		return 0, err
	}
	for i, suite := range selected {
		fmt.Printf("[%d/%d] %s: ", i+1, len(selected), suite.name)
		if s.passed(suite.name, tree) {
			fmt.Printf("passed at %s with the same code; skipped\n", s[suite.name].Commit)
			continue
		}
		r, err := runSuite(ctx, suite)
		if err != nil {
			return failed, err
		}
		r.Commit, r.Tree = commit, tree
		if len(r.Failed) > 0 {
			failed++
			fmt.Printf("FAILED after %.1f min: %s\n", r.Minutes, strings.Join(r.Failed, ", "))
		} else {
			fmt.Printf("passed in %.1f min\n", r.Minutes)
		}
		// The result is recorded after every suite, so that an interrupted run keeps its results.
		if err := record(file, *report, r); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

func runSuite(ctx context.Context, s suite) (result, error) {
	r := result{Suite: s.name, Seed: uint32(*seed)}
	if r.Seed == 0 {
		r.Seed = 1 + rand.Uint32N(1_000_000)
	}
	log := filepath.Join(*dir, s.name+".log")
	fmt.Printf("seed %d, usually %d min, log %s ... ", r.Seed, s.minutes, log)
	start := time.Now()
	var err error
	r.Failed, err = execute(ctx, s.command(r.Seed), log)
	r.Minutes = time.Since(start).Minutes()
	return r, err
}
