// Command summary merges the results of the fault tests into out/faults.json and writes the tables of
// docs/reports/faults.md.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/test/faults/report"
)

const (
	figuresMark = "<!-- figures: written by make faults -->\n"
	seededMark  = "<!-- seeded: written by make faults -->\n"
	endMark     = "<!-- end -->\n"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: summary <directory of rows> <total minutes> <file for all rows> <report>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
}

func run(dir, minutes, rowsFile, document string) error {
	rows, err := readRows(dir)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(rowsFile, append(content, '\n'), 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	filled, err := replaceSection(string(text), figuresMark, figuresTable(rows, minutes))
	if err != nil {
		return err
	}
	if filled, err = replaceSection(filled, seededMark, seededBugsTable(rows)); err != nil {
		return err
	}
	return os.WriteFile(document, []byte(filled), 0o644)
}

// readRows returns the rows ordered by test number.
func readRows(dir string) ([]report.Row, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var rows []report.Row
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var row report.Row
		if err := json.Unmarshal(content, &row); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no rows in %s", dir)
	}
	slices.SortFunc(rows, func(a, b report.Row) int {
		return cmp.Or(cmp.Compare(testNumber(a), testNumber(b)), cmp.Compare(a.Test, b.Test))
	})
	return rows, nil
}

// testNumber returns the number of a test; rows without a number come last.
func testNumber(r report.Row) int {
	first, _, _ := strings.Cut(r.Test, " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 1000
	}
	return n
}

// isSeededBug reports whether a row belongs to a seeded bug.
func isSeededBug(r report.Row) bool { return strings.HasPrefix(r.Test, "seeded: ") }

func figuresTable(rows []report.Row, minutes string) string {
	var text strings.Builder
	fmt.Fprintln(&text, "| test | generated | run | failed | not injected | machine-minutes | seed | measured |")
	fmt.Fprintln(&text, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
	var sum report.Row
	notInjected := 0
	for _, r := range rows {
		if isSeededBug(r) {
			continue
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %d | %d | %.1f | %d | %s |\n",
			r.Test, r.Generated, r.Run, r.Failed, len(r.NotInjected), r.Seconds/60, r.Seed, r.Measured)
		sum.Generated += r.Generated
		sum.Run += r.Run
		sum.Failed += r.Failed
		sum.Seconds += r.Seconds
		notInjected += len(r.NotInjected)
	}
	fmt.Fprintf(&text, "| all | %d | %d | %d | %d | %.1f | | |\n", sum.Generated, sum.Run, sum.Failed, notInjected, sum.Seconds/60)
	fmt.Fprintf(&text, "\nTotal: %s minutes on %d cores.\n", minutes, runtime.NumCPU())
	return text.String()
}

func seededBugsTable(rows []report.Row) string {
	var text strings.Builder
	fmt.Fprintln(&text, "| seeded bug | found | seconds | by |")
	fmt.Fprintln(&text, "| --- | --- | ---: | --- |")
	for _, r := range rows {
		if isSeededBug(r) {
			found := "yes"
			if r.Failed > 0 {
				found = "no"
			}
			fmt.Fprintf(&text, "| %s | %s | %.0f | %s |\n", strings.TrimPrefix(r.Test, "seeded: "), found, r.Seconds, strings.ReplaceAll(r.Measured, "|", "\\|"))
		}
	}
	return text.String()
}

// replaceSection replaces the text between a mark and its end mark.
func replaceSection(text, mark, content string) (string, error) {
	before, rest, ok := strings.Cut(text, mark)
	if !ok {
		return "", fmt.Errorf("the report has no line %q", strings.TrimSpace(mark))
	}
	_, after, ok := strings.Cut(rest, endMark)
	if !ok {
		return "", fmt.Errorf("the report has no line %q after %q", strings.TrimSpace(endMark), strings.TrimSpace(mark))
	}
	return before + mark + content + endMark + after, nil
}
