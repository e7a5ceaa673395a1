package invalidspecs_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// row is the result of a case.
type row struct {
	Case        string  `json:"case"`
	Kind        string  `json:"kind"`
	Class       string  `json:"class"`
	Where       string  `json:"where"`
	Reason      string  `json:"reason,omitempty"`
	Message     string  `json:"message"`
	Seconds     float64 `json:"seconds"`
	GraceReason string  `json:"late,omitempty"` // reason for a longer grace period
	// Writes counts accepted writes and Retries rejected writes in observationPeriod.
	Writes  int `json:"writes"`
	Retries int `json:"retries"`
}

// rows collects the results of parallel cases.
type rows struct {
	mu   sync.Mutex
	list []row
}

func (r *rows) add(result row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, result)
}

// normalizeMessage replaces the parts of a message that differ in every run.
func (w *world) normalizeMessage(message string) string {
	message = strings.ReplaceAll(message, w.NS, "shop")
	return podName.ReplaceAllString(message, "$1-x2x4z")
}

var (
	podName = regexp.MustCompile(`\b([Pp]od [a-z0-9-]+?)(-[a-z0-9]{6,10})?-[a-z0-9]{5}\b`)
	// validationFootnote is added by the API server if a value is missing or has the wrong type.
	validationFootnote = regexp.MustCompile(`\[?(.*), <nil>: Invalid value: null: some validation rules were not checked .*`)
)

// summary returns the first line of the report.
func (r *rows) summary(took time.Duration) string {
	admission, slowest, withGrace, retries, maxRetries := 0, 0.0, 0, 0, 0
	for _, one := range r.list {
		if one.Where == "admission" {
			admission++
			continue
		}
		retries, maxRetries = retries+one.Retries, max(maxRetries, one.Retries)
		if one.GraceReason != "" {
			withGrace++
			continue
		}
		slowest = max(slowest, one.Seconds)
	}
	return fmt.Sprintf("%d cases in %.0f s: %d rejected at admission, %d reported by a condition, the slowest after %.1f s, "+
		"except for %d with a documented grace period; "+
		"%d rejected writes in the following %.0f s, at most %d per case",
		len(r.list), took.Seconds(), admission, len(r.list)-admission, slowest, withGrace, retries, observationPeriod.Seconds(), maxRetries)
}

func (r *rows) sortAndLog(t *testing.T, took time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.list, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Case, b.Case))
	})
	t.Log(r.summary(took))
}

const (
	tableBegin = "<!-- table: written by make misuse -->\n"
	tableEnd   = "<!-- end -->\n"
)

// writeReport writes all rows to out/misuse.json and the table to docs/reports/misuse.md.
func (r *rows) writeReport(t *testing.T, root string, took time.Duration) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	content, err := json.MarshalIndent(r.list, "", "  ")
	must(err)
	must(os.MkdirAll(filepath.Join(root, "out"), 0o755))
	must(os.WriteFile(filepath.Join(root, "out", "misuse.json"), append(content, '\n'), 0o644))
	document := filepath.Join(root, "docs", "reports", "misuse.md")
	text, err := os.ReadFile(document)
	must(err)
	head, rest, found := strings.Cut(string(text), tableBegin)
	_, tail, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no marks for the table", document)
	}
	must(os.WriteFile(document, []byte(head+tableBegin+r.summary(took)+".\n\n"+r.table()+tableEnd+tail), 0o644))
}

func (r *rows) table() string {
	var b strings.Builder
	b.WriteString("| class | case | reported by | message | retries |\n| --- | --- | --- | --- | ---: |\n")
	for _, one := range r.list {
		where := "admission"
		if one.Reason != "" {
			where = "`" + one.Reason + "`"
		}
		_, message, admission := strings.Cut(one.Message, " is invalid: ")
		if !admission || one.Reason != "" {
			message = one.Message
		}
		message = validationFootnote.ReplaceAllString(message, "$1")
		message = strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "](", `]\(`).Replace(message)
		fmt.Fprintf(&b, "| %s | %s (%s) | %s | %s | %d |\n", one.Class, one.Case, one.Kind, where, message, one.Retries)
	}
	return b.String()
}
