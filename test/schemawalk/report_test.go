package schemawalk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// minCoverage is the minimum share of leaves that a full run walks.
const minCoverage = 0.95

// row is a row of the tables.
type row struct {
	Kind       string `json:"kind"`
	Leaves     int    `json:"leaves"`
	Walked     int    `json:"walked"`
	Rejected   int    `json:"refused"` // included in Walked
	Skipped    int    `json:"leftOut"`
	Mismatches int    `json:"mismatches"`
}

func (r *row) add(o row) {
	r.Leaves += o.Leaves
	r.Walked += o.Walked
	r.Rejected += o.Rejected
	r.Skipped += o.Skipped
	r.Mismatches += o.Mismatches
}

// report is the result of a run.
type report struct {
	Rows    []row   `json:"rows"`
	Seconds float64 `json:"seconds"`
	// ExtraWalks are walks in addition to the leaves.
	ExtraWalks      []row               `json:"further"`
	Skipped         map[string][]string `json:"leftOut"` // leaves by reason
	Rejected        map[string][]string `json:"refused"`
	Special         map[string][]string `json:"special"`
	UnsetWithParent []string            `json:"unsetWithWhatHoldsIt"`
	NeverUnset      []string            `json:"cannotBeUnset"`
	NoEffect        []string            `json:"changesNoChild"`
	Masks           []string            `json:"masks"`
}

const (
	scheduledJobs   = "AppStack, jobs with a schedule"
	alternativesRow = "changes between mutually exclusive fields"
)

func (w *walk) newReport(results []result, took time.Duration) *report {
	out := &report{Seconds: took.Seconds(), Skipped: map[string][]string{}, Rejected: map[string][]string{}, Special: map[string][]string{}}
	rows := map[string]*row{}
	for _, r := range results {
		name := r.kind.name
		switch {
		case r.isAlternatives:
			name = alternativesRow
		case r.scheduled:
			name = scheduledJobs
		}
		if rows[name] == nil {
			rows[name] = &row{Kind: name}
		}
		counts := row{Leaves: 1, Walked: 1, Mismatches: len(r.mismatches)}
		switch {
		case r.skipReason != "":
			counts = row{Leaves: 1, Skipped: 1}
			out.Skipped[r.skipReason] = append(out.Skipped[r.skipReason], r.title())
		case r.rejectReason != "":
			counts.Rejected = 1
			out.Rejected[r.rejectReason] = append(out.Rejected[r.rejectReason], r.title())
		}
		rows[name].add(counts)
		out.addNotes(r)
	}
	for _, name := range sortedKeys(rows) {
		if name == scheduledJobs || name == alternativesRow {
			out.ExtraWalks = append(out.ExtraWalks, *rows[name])
			continue
		}
		out.Rows = append(out.Rows, *rows[name])
	}
	for i, m := range maskRules {
		kind := m.kind
		if kind == "" {
			kind = "all kinds"
		}
		out.Masks = append(out.Masks, fmt.Sprintf("%s | %s | %d | %s", kind, m.path, w.hits.count[i], m.reason))
	}
	return out
}

// addNotes adds a walk to the lists of the page.
func (o *report) addNotes(r result) {
	if r.skipReason != "" || r.rejectReason != "" || r.isAlternatives || len(r.mismatches) > 0 {
		return
	}
	if reason := cmp.Or(r.exceptionReason(recreatedLeaves), r.exceptionReason(leavesWithoutClaims)); reason != "" {
		o.Special[reason] = append(o.Special[reason], r.title())
	}
	switch r.removed {
	case r.name():
	case "":
		o.NeverUnset = append(o.NeverUnset, r.title())
	default:
		o.UnsetWithParent = append(o.UnsetWithParent, r.title()+", with "+r.removed)
	}
	if r.noEffect {
		o.NoEffect = append(o.NoEffect, fmt.Sprintf("`%s`: %s", r.title(), r.exceptionReason(leavesWithoutEffect)))
	}
}

func (o *report) total() row {
	all := row{Kind: "all"}
	for _, r := range o.Rows {
		all.add(r)
	}
	return all
}

// checkCoverage fails a full run that skips too many leaves, or has an unneeded mask.
func (w *walk) checkCoverage(r *report) {
	if t := r.total(); float64(t.Walked) < minCoverage*float64(t.Leaves) {
		w.t.Errorf("%d of %d leaves were walked, want at least %.0f %%", t.Walked, t.Leaves, 100*minCoverage)
	}
	for i, m := range maskRules {
		if w.hits.count[i] == 0 {
			w.t.Errorf("mask of %s %s is not needed: remove it", m.kind, m.path)
		}
	}
}

// publish prints the result and writes the reports if -report is set.
func (w *walk) publish(results []result, took time.Duration) {
	r := w.newReport(results, took)
	fmt.Print("\n", r.text(), "\n")
	if *allLeaves && *pathFilter == "" {
		w.checkCoverage(r)
	}
	if !*writeReports {
		return
	}
	root, err := operator.RepoRoot()
	if err != nil {
		w.t.Fatal(err)
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		w.t.Fatal(err)
	}
	for file, content := range map[string]string{"out/schema-walk.json": string(content) + "\n", "docs/reports/schema-walk.md": heading + r.text()} {
		path := filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

const heading = `# Schema walk: set, change and unset every field

` + "`make schema-walk`" + ` writes this page. A leaf is a field of the schema without subfields. Each leaf is walked in its own object against a
real API server and the real operator: the object is created without it, then the leaf is set, changed and unset. After each
step the children must equal those of a new object with the same spec: in the whole object, so that no earlier value
remains, and in the set of fields that the field manager holdfast owns.

A leaf that is invalid in its place is tried as well: the schema or the status must reject it with a message, and the
children must not change.

`

// text renders the result as a page.
func (o *report) text() string {
	var b strings.Builder
	table := func(first string, rows []row) {
		fmt.Fprintf(&b, "| %s | all | walked | rejected | skipped | mismatches |\n| --- | ---: | ---: | ---: | ---: | ---: |\n", first)
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", r.Kind, r.Leaves, r.Walked, r.Rejected, r.Skipped, r.Mismatches)
		}
	}
	t := o.total()
	table("leaves of", append(slices.Clone(o.Rows), t))
	fmt.Fprintf(&b, "\n%.1f %% of the leaves in %.0f s; rejected leaves count as walked.\n\nAdditional walks:\n\n", 100*float64(t.Walked)/float64(max(t.Leaves, 1)), o.Seconds)
	table("walk", o.ExtraWalks)
	list := func(title string, lines []string) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, line := range lines {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	list("Skipped", append(linesByReason(o.Skipped), "the value Headless of service.type: the schema rejects changes from and to Headless"))
	list("Rejected with a message", linesByReason(o.Rejected))
	list("Walked differently", linesByReason(o.Special))
	list("Required, therefore not unset", quoted(o.NeverUnset))
	list("Without effect on children", o.NoEffect)
	fmt.Fprintf(&b, "\n%d more leaves are required in their parent; to unset them, the parent is removed (out/schema-walk.json lists them).\n", len(o.UnsetWithParent))
	b.WriteString("\n## Not compared\n\n| kind | field | occurrences | reason |\n| --- | --- | ---: | --- |\n")
	for _, m := range o.Masks {
		fmt.Fprintf(&b, "| %s |\n", m)
	}
	b.WriteString("\nThe name and UID of the object and the UID of the child are replaced by constants. Revisions of a stack are not\ncompared, because they contain earlier specs. Claims and credential Secrets are not compared, because they are created\nonce and retained. An expanded volume is required for Ready.\n")
	return b.String()
}

// linesByReason returns a line per leaf, ordered by reason.
func linesByReason(by map[string][]string) []string {
	var out []string
	for _, reason := range sortedKeys(by) {
		for _, title := range by[reason] {
			out = append(out, fmt.Sprintf("`%s`: %s", title, reason))
		}
	}
	return out
}

func quoted(titles []string) []string {
	out := make([]string, 0, len(titles))
	for _, t := range titles {
		out = append(out, "`"+t+"`")
	}
	return out
}
