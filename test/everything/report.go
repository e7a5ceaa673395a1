package main

import (
	"fmt"
	"strconv"
	"strings"
)

const header = `# All long test suites

` + "`make everything`" + ` runs every suite in full with a fresh seed, continues after failures and writes this table.
` + "`make everything SUITES=faults,calls`" + ` runs some of them. A suite that passed with the same code is not run again.
To repeat a run, check out its commit and give its seed: ` + "`make faults SEED=<seed>`" + `.
The column "code" is a hash of all files of the commit except documentation.

| suite | command | seed | commit | code | minutes | result |
| --- | --- | ---: | --- | --- | ---: | --- |
`

// table lists the suites in their order; those that did not run with this code are marked.
func table(s state, tree string) string {
	var text strings.Builder
	text.WriteString(header)
	for _, suite := range suites {
		r, ok := s[suite.name]
		command := "`make " + suite.target + "`"
		if !ok {
			fmt.Fprintf(&text, "| %s | %s | | | | | not run |\n", suite.name, command)
			continue
		}
		verdict := "passed"
		if len(r.Failed) > 0 {
			verdict = "failed: " + strings.ReplaceAll(strings.Join(r.Failed, ", "), "|", "\\|")
		}
		if r.Tree != tree {
			verdict += " (older code)"
		}
		fmt.Fprintf(&text, "| %s | %s | %d | %s | %s | %.1f | %s |\n", suite.name, command, r.Seed, r.Commit, r.Tree, r.Minutes, verdict)
	}
	return text.String()
}

// parseTable reads the rows written by table.
func parseTable(text string) []result {
	var rows []result
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), "\\|", "/"), "|")
		if len(cells) != 9 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		seed, err := strconv.ParseUint(cells[3], 10, 32)
		if err != nil {
			continue // heading, or a suite that was not run
		}
		r := result{Suite: cells[1], Seed: uint32(seed), Commit: cells[4], Tree: cells[5]}
		r.Minutes, _ = strconv.ParseFloat(cells[6], 64)
		if failed, ok := strings.CutPrefix(strings.TrimSuffix(cells[7], " (older code)"), "failed: "); ok {
			r.Failed = strings.Split(failed, ", ")
		}
		rows = append(rows, r)
	}
	return rows
}
