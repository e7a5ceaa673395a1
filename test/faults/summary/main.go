// Command summary puts what the tests of faults have left into one file, out/faults.json,
// and its figures into the table of docs/reports/faults.md.
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
	figures = "<!-- figures: written by make faults -->\n"
	seeded  = "<!-- seeded: written by make faults -->\n"
	end     = "<!-- end -->\n"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: summary <folder of rows> <minutes it all took> <file for all rows> <report>")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
}

func run(dir, minutes, all, document string) error {
	rows, err := read(dir)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(all, append(content, '\n'), 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	filled, err := fill(string(text), figures, table(rows, minutes))
	if err != nil {
		return err
	}
	if filled, err = fill(filled, seeded, mistakes(rows)); err != nil {
		return err
	}
	return os.WriteFile(document, []byte(filled), 0o644)
}

// read returns the rows in the order of the battery.
func read(dir string) ([]report.Row, error) {
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
		return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a.Test, b.Test))
	})
	return rows, nil
}

// number is that of a test in the battery; those without come last.
func number(r report.Row) int {
	first, _, _ := strings.Cut(r.Test, " ")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 1000
	}
	return n
}

// isMistake tells a seeded bug from a test of the battery.
func isMistake(r report.Row) bool { return strings.HasPrefix(r.Test, "seeded: ") }

func table(rows []report.Row, minutes string) string {
	var text strings.Builder
	fmt.Fprintln(&text, "| test | generated | run | failed | found nothing to strike | machine-minutes | seed | seen |")
	fmt.Fprintln(&text, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
	var sum report.Row
	missed := 0
	for _, r := range rows {
		if isMistake(r) {
			continue
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %d | %d | %.1f | %d | %s |\n",
			r.Test, r.Generated, r.Run, r.Failed, len(r.Missed), r.Seconds/60, r.Seed, r.Seen)
		sum.Generated += r.Generated
		sum.Run += r.Run
		sum.Failed += r.Failed
		sum.Seconds += r.Seconds
		missed += len(r.Missed)
	}
	fmt.Fprintf(&text, "| all | %d | %d | %d | %d | %.1f | | |\n", sum.Generated, sum.Run, sum.Failed, missed, sum.Seconds/60)
	fmt.Fprintf(&text, "\nAll of it took %s minutes on %d cores.\n", minutes, runtime.NumCPU())
	return text.String()
}

func mistakes(rows []report.Row) string {
	var text strings.Builder
	fmt.Fprintln(&text, "| seeded bug | found | seconds | by |")
	fmt.Fprintln(&text, "| --- | --- | ---: | --- |")
	for _, r := range rows {
		if isMistake(r) {
			found := "yes"
			if r.Failed > 0 {
				found = "no"
			}
			fmt.Fprintf(&text, "| %s | %s | %.0f | %s |\n", strings.TrimPrefix(r.Test, "seeded: "), found, r.Seconds, strings.ReplaceAll(r.Seen, "|", "\\|"))
		}
	}
	return text.String()
}

// fill replaces what is between a mark and the end of its part.
func fill(text, mark, content string) (string, error) {
	before, rest, ok := strings.Cut(text, mark)
	if !ok {
		return "", fmt.Errorf("the report has no line %q", strings.TrimSpace(mark))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the report has no line %q after %q", strings.TrimSpace(end), strings.TrimSpace(mark))
	}
	return before + mark + content + end + after, nil
}
