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
	page  = "docs/user/data-safety.md"
	begin = "<!-- table: written by make data-matrix -->\n"
	end   = "<!-- end -->\n"
)

// figures sums up.
func (r *results) figures(took time.Duration) string {
	violations := 0
	for _, o := range r.of {
		violations += o.violations
	}
	return fmt.Sprintf("%d pairs, %d violations, %.0f seconds", len(r.of), violations, took.Seconds())
}

// table says what each operation does, and which pairs kept the data.
func (r *results) table(took time.Duration) string {
	var b strings.Builder
	b.WriteString("| you | the volume | the password | the pods |\n| --- | --- | --- | --- |\n")
	for i, o := range operations {
		fmt.Fprintf(&b, "| %d. %s | %s | %s | %s |\n", i+1, o.title, o.volume, o.password, o.pods)
	}
	b.WriteString("\nFirst the row, then the column:\n\n| |")
	for i := range operations {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" :-: |", len(operations)) + "\n")
	for i, first := range operations {
		fmt.Fprintf(&b, "| %d. %s |", i+1, first.name)
		for _, second := range operations {
			o, played := r.of[pair{first.name, second.name}]
			switch {
			case !played:
				b.WriteString(" |")
			case o.violations > 0:
				b.WriteString(" ✗ |")
			default:
				b.WriteString(" ✓ |")
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%s.\n", r.figures(took))
	return b.String()
}

// write puts the table into the page.
func (r *results) write(t *testing.T, took time.Duration) {
	t.Helper()
	if len(r.of) != len(operations)*len(operations) {
		t.Fatalf("%d pairs are no matrix: -report needs -all", len(r.of))
	}
	head, _, tail := pageParts(t)
	if err := os.WriteFile(pagePath(t), []byte(head+begin+r.table(took)+end+tail), 0o644); err != nil {
		t.Fatal(err)
	}
}

func pagePath(t *testing.T) string {
	t.Helper()
	root, err := operator.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, filepath.FromSlash(page))
}

// pageParts are what is before the table, the table, and what is behind it.
func pageParts(t *testing.T) (head, table, tail string) {
	t.Helper()
	text, err := os.ReadFile(pagePath(t))
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", page)
	}
	return head, table, tail
}
