package datamatrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	docPath    = "docs/user/data-safety.md"
	tableBegin = "<!-- table: written by make data-matrix -->\n"
	tableEnd   = "<!-- end -->\n"
)

func (r *results) summary(took time.Duration) string {
	violations := 0
	for _, o := range r.byPair {
		violations += o.violations
	}
	return fmt.Sprintf("%d pairs, %d violations, %.0f seconds", len(r.byPair), violations, took.Seconds())
}

// table describes each operation and shows the pairs that kept the data.
func (r *results) table(took time.Duration) string {
	var b strings.Builder
	b.WriteString("| action | volume | password | pods |\n| --- | --- | --- | --- |\n")
	for i, o := range operations {
		fmt.Fprintf(&b, "| %d. %s | %s | %s | %s |\n", i+1, o.title, o.volume, o.password, o.pods)
	}
	b.WriteString("\nPairs: first the action of the row, then the action of the column. ✓: no violation.\n\n| |")
	for i := range operations {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" :-: |", len(operations)) + "\n")
	for i, first := range operations {
		fmt.Fprintf(&b, "| %d. %s |", i+1, first.name)
		for _, second := range operations {
			o, wasRun := r.byPair[pair{first.name, second.name}]
			switch {
			case !wasRun:
				b.WriteString(" |")
			case o.violations > 0:
				b.WriteString(" ✗ |")
			default:
				b.WriteString(" ✓ |")
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%s.\n", r.summary(took))
	return b.String()
}

// writeTable replaces the table in the page.
func (r *results) writeTable(t *testing.T, took time.Duration) {
	t.Helper()
	if len(r.byPair) != len(operations)*len(operations) {
		t.Fatalf("got %d pairs, want all: use -report with -all", len(r.byPair))
	}
	head, _, tail := splitDoc(t)
	if err := os.WriteFile(docFile(t), []byte(head+tableBegin+r.table(took)+tableEnd+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

func docFile(t *testing.T) string {
	t.Helper()
	root, err := operator.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, filepath.FromSlash(docPath))
}

// splitDoc returns the page before the table, the table, and the rest.
func splitDoc(t *testing.T) (head, table, tail string) {
	t.Helper()
	text, err := os.ReadFile(docFile(t))
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), tableBegin)
	table, tail, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no markers for the table", docPath)
	}
	return head, table, tail
}
