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

// enough is the share of the leaves that a full run must walk.
const enough = 0.95

// row is one line of the result.
type row struct {
	Kind       string `json:"kind"`
	Leaves     int    `json:"leaves"`
	Walked     int    `json:"walked"`
	Refused    int    `json:"refused"` // of those that were walked
	LeftOut    int    `json:"leftOut"`
	Mismatches int    `json:"mismatches"`
}

func (r *row) add(o row) {
	r.Leaves += o.Leaves
	r.Walked += o.Walked
	r.Refused += o.Refused
	r.LeftOut += o.LeftOut
	r.Mismatches += o.Mismatches
}

// report is what a run found.
type report struct {
	Rows    []row   `json:"rows"`
	Seconds float64 `json:"seconds"`
	// Further are walks beside the leaves.
	Further []row               `json:"further"`
	Left    map[string][]string `json:"leftOut"` // leaves by reason
	Refused map[string][]string `json:"refused"`
	Special map[string][]string `json:"special"`
	Whole   []string            `json:"unsetWithWhatHoldsIt"`
	Never   []string            `json:"cannotBeUnset"`
	Silent  []string            `json:"changesNoChild"`
	Masks   []string            `json:"masks"`
}

const (
	jobsAgain = "AppStack, jobs with a schedule"
	allRings  = "from one way to say it to the other"
)

func (w *walk) report(results []result, took time.Duration) *report {
	out := &report{Seconds: took.Seconds(), Left: map[string][]string{}, Refused: map[string][]string{}, Special: map[string][]string{}}
	rows := map[string]*row{}
	for _, r := range results {
		name := r.kind.name
		switch {
		case r.ring:
			name = allRings
		case r.scheduled:
			name = jobsAgain
		}
		if rows[name] == nil {
			rows[name] = &row{Kind: name}
		}
		one := row{Leaves: 1, Walked: 1, Mismatches: len(r.mismatches)}
		switch {
		case r.leftOut != "":
			one = row{Leaves: 1, LeftOut: 1}
			out.Left[r.leftOut] = append(out.Left[r.leftOut], r.title())
		case r.refused != "":
			one.Refused = 1
			out.Refused[r.refused] = append(out.Refused[r.refused], r.title())
		}
		rows[name].add(one)
		out.note(r)
	}
	for _, name := range sortedKeys(rows) {
		if name == jobsAgain || name == allRings {
			out.Further = append(out.Further, *rows[name])
			continue
		}
		out.Rows = append(out.Rows, *rows[name])
	}
	for i, m := range mask {
		kind := m.kind
		if kind == "" {
			kind = "all kinds"
		}
		out.Masks = append(out.Masks, fmt.Sprintf("%s | %s | %d | %s", kind, m.path, w.hits.count[i], m.why))
	}
	return out
}

// note keeps what a reader should know about a walk.
func (o *report) note(r result) {
	if r.leftOut != "" || r.refused != "" || r.ring || len(r.mismatches) > 0 {
		return
	}
	if why := cmp.Or(r.among(anew), r.among(unclaimed)); why != "" {
		o.Special[why] = append(o.Special[why], r.title())
	}
	switch r.removed {
	case r.name():
	case "":
		o.Never = append(o.Never, r.title())
	default:
		o.Whole = append(o.Whole, r.title()+", with "+r.removed)
	}
	if r.silent {
		o.Silent = append(o.Silent, fmt.Sprintf("`%s`: %s", r.title(), r.among(quiet)))
	}
}

func (o *report) total() row {
	all := row{Kind: "all"}
	for _, r := range o.Rows {
		all.add(r)
	}
	return all
}

// complete fails a full run that leaves too much out, or hides what need not be hidden.
func (w *walk) complete(r *report) {
	if t := r.total(); float64(t.Walked) < enough*float64(t.Leaves) {
		w.t.Errorf("%d of %d leaves were walked, which is less than %.0f %%", t.Walked, t.Leaves, 100*enough)
	}
	for i, m := range mask {
		if w.hits.count[i] == 0 {
			w.t.Errorf("nothing needs the mask of %s %s: remove it", m.kind, m.path)
		}
	}
}

// publish prints the result and, if asked to, writes it down.
func (w *walk) publish(results []result, took time.Duration) {
	r := w.report(results, took)
	fmt.Print("\n", r.text(), "\n")
	if *all && *only == "" {
		w.complete(r)
	}
	if !*reports {
		return
	}
	root, err := operator.Root()
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

const heading = `# Every field, set, changed and unset

` + "`make schema-walk`" + ` writes this page. A leaf is a field of the schema that has no fields itself. Each is walked in an object of
its own against a real API server and the real operator: created without it, then with a value, with another, and without
it again. After each step the children must be those of a fresh object with the same spec, in two respects: the whole
object, so that nothing of what was said before stays behind, and the set of fields that the field manager holdfast owns.

A leaf that cannot be set where it is is tried: it must be refused in so many words, by the schema or in the status, and
the children must be what they were before, during and after.

`

// text is the result as a page.
func (o *report) text() string {
	var b strings.Builder
	table := func(first string, rows []row) {
		fmt.Fprintf(&b, "| %s | all | walked | of them refused | left out | mismatches |\n| --- | ---: | ---: | ---: | ---: | ---: |\n", first)
		for _, r := range rows {
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d |\n", r.Kind, r.Leaves, r.Walked, r.Refused, r.LeftOut, r.Mismatches)
		}
	}
	t := o.total()
	table("leaves of", append(slices.Clone(o.Rows), t))
	fmt.Fprintf(&b, "\n%.1f %% of the leaves, in %.0f s.\n\nWalks beside them:\n\n", 100*float64(t.Walked)/float64(max(t.Leaves, 1)), o.Seconds)
	table("walk", o.Further)
	list := func(title string, lines []string) {
		fmt.Fprintf(&b, "\n## %s\n\n", title)
		for _, line := range lines {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	list("Left out", append(reasons(o.Left), "the value Headless of service.type: a Service cannot become Headless or stop being it, which the schema says"))
	list("Refused, said so, and nothing of it stays", reasons(o.Refused))
	list("Walked in a way of their own", reasons(o.Special))
	list("Set and changed, not unset, because it is required", quoted(o.Never))
	list("No value changes a child", o.Silent)
	fmt.Fprintf(&b, "\n%d further walks are of leaves that are required where they are; to unset them, what holds them goes (out/schema-walk.json lists them).\n", len(o.Whole))
	b.WriteString("\n## What is not compared\n\n| kind | field | seen | why |\n| --- | --- | ---: | --- |\n")
	for _, m := range o.Masks {
		fmt.Fprintf(&b, "| %s |\n", m)
	}
	b.WriteString("\nThe name of the object, its UID and that of the child are replaced by the same word everywhere. Revisions of a stack\nare not compared: they remember what was. Claims and the Secrets with credentials are not, either: they are made once\nand stay. That a volume has grown is part of being ready.\n")
	return b.String()
}

// reasons are leaves with the reason for each.
func reasons(by map[string][]string) []string {
	var out []string
	for _, why := range sortedKeys(by) {
		for _, title := range by[why] {
			out = append(out, fmt.Sprintf("`%s`: %s", title, why))
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
