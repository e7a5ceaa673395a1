package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// List is the answer for programs.
type List struct {
	cli.Header `json:",inline"`
	Items      []Plan `json:"items"`
}

// show prints plans.
func show(out cli.Terminal, output cli.Output, plans []Plan) error {
	if output.Machine() {
		return output.Print(out, List{cli.NewHeader("PlanList"), plans})
	}
	for i, p := range plans {
		if i > 0 {
			fmt.Fprintln(out)
		}
		p.print(out, output.Format == cli.FormatWide)
	}
	return nil
}

// print prints a plan for people.
func (p Plan) print(out cli.Terminal, wide bool) {
	fmt.Fprintln(out, out.Paint(cli.Bold, p.title()+": "+p.summary()))
	var shown []Change
	for _, c := range p.Changes {
		if c.Kind != desired.KindRevision.Kind && (wide || c.Action != Unchanged) {
			shown = append(shown, c)
		}
	}
	if len(shown) > 0 {
		fmt.Fprintln(out)
	}
	width := 0
	for _, c := range shown {
		width = max(width, len(c.Component))
	}
	for _, c := range shown {
		c.print(out, width, wide)
	}
	if text := p.revisions(); text != "" {
		paragraph(out, "", text)
	}
	for _, t := range p.Trouble {
		paragraph(out, cli.Bad, fmt.Sprintf("%s: %s", t.Component, t.Message))
	}
	for _, n := range p.Notes {
		paragraph(out, cli.Busy, n)
	}
	if slices.ContainsFunc(shown, func(c Change) bool { return c.Guessed }) {
		paragraph(out, cli.Busy, "Where it says \"without the API server\", the API server was not asked, because you may not write such objects or because others hold fields that shut out ours: only the fields that Holdfast holds are compared.")
	}
}

func paragraph(out cli.Terminal, colour, text string) {
	fmt.Fprintln(out)
	for _, line := range cli.Wrap(text, out.Width) {
		if colour != "" {
			line = out.Paint(colour, line)
		}
		fmt.Fprintln(out, line)
	}
}

// summary counts what happens.
func (p Plan) summary() string {
	if p.Suspended {
		return "suspended, so nothing else is written"
	}
	counts := map[Action]int{}
	for _, c := range p.Changes {
		if c.Kind != desired.KindRevision.Kind {
			counts[c.Action]++
		}
	}
	var parts []string
	for _, a := range []Action{Created, Changed, Recreated, Deleted, Refused, Unchanged} {
		if n := counts[a]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(a))))
		}
	}
	switch {
	case counts[Unchanged] < len(p.Changes) && len(parts) > 0:
		return strings.Join(parts, ", ")
	case p.SpecChanges:
		return "nothing changes but its own spec"
	}
	return "nothing changes"
}

// colours of what happens; the words say the same.
var colours = map[Action]string{Created: cli.Good, Changed: cli.Busy, Deleted: cli.Bad, Recreated: cli.Bad, Refused: cli.Bad, Unchanged: cli.Dim}

// print prints a change: what, and below it the fields. What does not fit into the line goes
// below it, too.
func (c Change) print(out cli.Terminal, width int, wide bool) {
	const indent = "    "
	line := fmt.Sprintf("%-10s%-*s  %s %s", strings.ToLower(string(c.Action)), width, c.Component, c.Kind, c.Name)
	marks := strings.Join(c.marks(), ", ")
	below := out.Width > 0 && len(line)+2+len(marks) > out.Width
	if marks != "" && !below {
		line += "  " + marks
	}
	fmt.Fprintln(out, out.Paint(colours[c.Action], line))
	if marks != "" && below {
		for _, text := range cli.Wrap(marks, out.Width-len(indent)) {
			fmt.Fprintln(out, out.Paint(colours[c.Action], indent+text))
		}
	}
	for _, f := range c.Fields {
		if wide || !f.follows() {
			fmt.Fprintln(out, indent+f.text(out.Width))
		}
	}
}

// marks are what people have to know about a change.
func (c Change) marks() []string {
	var marks []string
	add := func(set bool, format string, args ...any) {
		if set {
			marks = append(marks, fmt.Sprintf(format, args...))
		}
	}
	add(c.Action == Deleted && c.Data == "", "DELETES")
	add(c.Data == dataDeleted, "DELETES DATA FOR GOOD")
	add(c.Action == Recreated && c.Kind == desired.KindStatefulSet.Kind, "RECREATES around its pods")
	add(c.Action == Recreated && c.Kind != desired.KindStatefulSet.Kind, "RECREATES")
	add(c.Restarts > 0, "RESTARTS %s", counted(int(c.Restarts), "pod"))
	add(c.Runs, "RUNS")
	add(c.Data == dataGrows, "GROWS")
	add(c.Data == dataRetained, "RETAINED: the data stays")
	add(c.Data == dataFound, "FOUND AGAIN")
	add(len(c.After) > 0, "after %s %s ready", and(c.After), isAre(len(c.After)))
	add(c.Guessed, "without the API server")
	add(c.Because != "", "%s", c.Because)
	add(c.Reason != "" && c.Action == Refused, "%s", c.Reason)
	add(c.Reason != "" && c.Action != Refused, "REFUSED in part: %s", c.Reason)
	return marks
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// revisions says what is remembered.
func (p Plan) revisions() string {
	var parts, forgotten []string
	for _, c := range p.Changes {
		if c.Kind != desired.KindRevision.Kind {
			continue
		}
		switch c.Action {
		case Created:
			parts = append(parts, "The spec is remembered as a new revision.")
		case Deleted:
			forgotten = append(forgotten, c.Name)
		case Changed:
			for _, f := range c.Fields {
				if f.Path == "revision" {
					parts = append(parts, fmt.Sprintf("The spec is that of revision %v again, which becomes revision %v.", f.Old, f.New))
				}
			}
		}
	}
	if len(forgotten) > 0 {
		parts = append(parts, fmt.Sprintf("Forgotten: ControllerRevision %s.", and(forgotten)))
	}
	return strings.Join(parts, " ")
}

// follows says whether a field only follows from others.
func (f Field) follows() bool { return slices.Contains(hashes[:2], f.Path) }

// text is a field in one line, as short as the terminal is narrow.
func (f Field) text(width int) string {
	room := 0
	if width > 0 {
		room = max(width/3, 20)
	}
	switch {
	case f.Unknown || slices.Contains(hashes, f.Path):
		return f.Path + ": changed"
	case f.Old == nil:
		return "+ " + f.Path + ": " + short(f.New, room)
	case f.New == nil:
		return "- " + f.Path + ": " + short(f.Old, room)
	}
	return fmt.Sprintf("%s: %s -> %s", f.Path, short(f.Old, room), short(f.New, room))
}

// most is how long a value may be where any line fits.
const most = 200

// short is a value in one line.
func short(value any, room int) string {
	text, isString := value.(string)
	if !isString || strings.ContainsAny(text, "\n\t") || text == "" {
		content, err := json.Marshal(value)
		if err != nil {
			return "?"
		}
		text = string(content)
	}
	if room == 0 {
		room = most
	}
	if runes := []rune(text); len(runes) > room {
		return string(runes[:room-3]) + "..."
	}
	return text
}
