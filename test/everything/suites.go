package main

import (
	"fmt"
	"strings"
	"time"
)

// suite is one long test suite: a make target that runs in full.
type suite struct {
	name    string
	target  string
	args    []string
	minutes int // measured on two cores, printed before the suite starts
}

// limit is the timeout of a suite. Suites that need more time must be split.
const limit = 150 * time.Minute

// suites run in this order: short ones first, so that an interrupted run still covers most of the table.
var suites = []suite{
	{name: "plan-truth", target: "plan-truth", minutes: 6},
	{name: "calls", target: "calls", minutes: 8},
	{name: "plugin-scale", target: "plugin-scale", minutes: 4},
	{name: "watch-battery", target: "watch-battery", minutes: 8},
	{name: "misuse", target: "misuse", minutes: 8},
	{name: "schema-walk", target: "schema-walk", minutes: 12},
	{name: "data-matrix", target: "data-matrix", minutes: 15},
	{name: "stories", target: "test-long", minutes: 25},
	{name: "center", target: "test-center", minutes: 20},
	{name: "causes", target: "causes", minutes: 30},
	{name: "database", target: "test-db", minutes: 40},
	{name: "faults", target: "faults", minutes: 105},
}

// command is the make invocation of a suite with a seed.
func (s suite) command(seed uint32) []string {
	return append([]string{"make", s.target, fmt.Sprintf("SEED=%d", seed)}, s.args...)
}

// selectSuites returns the suites with the given names, or all of them.
func selectSuites(names string) ([]suite, error) {
	if names == "" {
		return suites, nil
	}
	var out []suite
	for name := range strings.SplitSeq(names, ",") {
		s, ok := findSuite(name)
		if !ok {
			return nil, fmt.Errorf("unknown suite %q: use %s", name, strings.Join(suiteNames(), ", "))
		}
		out = append(out, s)
	}
	return out, nil
}

func findSuite(name string) (suite, bool) {
	for _, s := range suites {
		if s.name == name {
			return s, true
		}
	}
	return suite{}, false
}

func suiteNames() []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}
