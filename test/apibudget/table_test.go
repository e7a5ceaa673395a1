package apibudget

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// row is a row of the result.
type row struct {
	Name     string   `json:"name"`
	Budget   string   `json:"budget"`
	Measured string   `json:"measured"`
	OK       bool     `json:"ok"`
	Notes    []string `json:"notes,omitempty"` // notable requests, printed below the table
}

type table struct{ rows []row }

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// publish prints the table, writes it to out/calls.json and fails the test for every row over budget.
func (t *table) publish(tb testing.TB) {
	fmt.Print("\n", t)
	root, err := operator.RepoRoot()
	if err != nil {
		tb.Fatal(err)
	}
	content, err := json.MarshalIndent(map[string]any{
		"apps": *apps, "stacks": *stacks, "settleSeconds": idlePeriod.Seconds(), "updates": *updates, "rows": t.rows,
	}, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "out"), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "out", "calls.json"), append(content, '\n'), 0o644); err != nil {
		tb.Fatal(err)
	}
	for _, r := range t.rows {
		if !r.OK {
			tb.Errorf("%s: budget %s, measured %s", r.Name, r.Budget, r.Measured)
		}
	}
}

func (t *table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tBUDGET\tMEASURED\tVERDICT")
	for _, r := range t.rows {
		verdict := "ok"
		if !r.OK {
			verdict = "EXCEEDED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Budget, r.Measured, verdict)
	}
	_ = w.Flush() // cannot fail: writes to memory
	for _, r := range t.rows {
		for _, note := range r.Notes {
			fmt.Fprintf(&text, "%s: %s\n", r.Name, note)
		}
	}
	return text.String()
}
