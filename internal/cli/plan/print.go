package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// List is the machine-readable output.
type List struct {
	cli.Header `json:",inline"`
	Items      []Plan `json:"items"`
}

// printPlans prints plans.
func printPlans(out cli.Terminal, output cli.Output, plans []Plan) error {
	if output.IsMachineReadable() {
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

// print prints a plan as text.
func (p Plan) print(out cli.Terminal, wide bool) {
	fmt.Fprintln(out, out.Colorize(cli.StyleBold, p.title()+": "+p.summary()))
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
	if text := p.revisionSummary(); text != "" {
		printParagraph(out, "", text)
	}
	for _, t := range p.Problems {
		printParagraph(out, cli.ColorBad, fmt.Sprintf("%s: %s", t.Component, t.Message))
	}
	for _, n := range p.Notes {
		printParagraph(out, cli.ColorWarning, n)
	}
	if slices.ContainsFunc(shown, func(c Change) bool { return c.Estimated }) {
		printParagraph(out, cli.ColorWarning,
			"Changes marked \"estimated without the API server\" were not checked with a dry run: either you have no permission "+
				"to write the object, or Holdfast first removes fields of other field managers from it. "+
				"Only fields that Holdfast owns are compared.")
	}
}

func printParagraph(out cli.Terminal, color, text string) {
	fmt.Fprintln(out)
	for _, line := range cli.Wrap(text, out.Width) {
		if color != "" {
			line = out.Colorize(color, line)
		}
		fmt.Fprintln(out, line)
	}
}

// summary counts the changes by action.
func (p Plan) summary() string {
	if p.Suspended {
		return "suspended, only the spec is written"
	}
	counts := map[Action]int{}
	for _, c := range p.Changes {
		if c.Kind != desired.KindRevision.Kind {
			counts[c.Action]++
		}
	}
	var parts []string
	for _, a := range []Action{Created, Changed, Recreated, Deleted, Rejected, Unchanged} {
		if n := counts[a]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(a))))
		}
	}
	switch {
	case counts[Unchanged] < len(p.Changes) && len(parts) > 0:
		return strings.Join(parts, ", ")
	case p.SpecChanges:
		return "only the spec changes"
	}
	return "no changes"
}

// actionColors are the colors of actions. The action is also printed as text.
var actionColors = map[Action]string{Created: cli.ColorGood, Changed: cli.ColorWarning, Deleted: cli.ColorBad, Recreated: cli.ColorBad, Rejected: cli.ColorBad, Unchanged: cli.StyleDim}

// print prints a change with its fields below. Remarks that do not fit into the line are wrapped below it.
func (c Change) print(out cli.Terminal, width int, wide bool) {
	const indent = "    "
	line := fmt.Sprintf("%-10s%-*s  %s %s", strings.ToLower(string(c.Action)), width, c.Component, c.Kind, c.Name)
	remarks := strings.Join(c.remarks(), ", ")
	onNextLine := out.Width > 0 && len(line)+2+len(remarks) > out.Width
	if remarks != "" && !onNextLine {
		line += "  " + remarks
	}
	fmt.Fprintln(out, out.Colorize(actionColors[c.Action], line))
	if remarks != "" && onNextLine {
		for _, text := range cli.Wrap(remarks, out.Width-len(indent)) {
			fmt.Fprintln(out, out.Colorize(actionColors[c.Action], indent+text))
		}
	}
	for _, f := range c.Fields {
		if wide || !f.isDerived() {
			fmt.Fprintln(out, indent+f.format(out.Width))
		}
	}
}

// remarks returns the effects of a change, such as restarts.
func (c Change) remarks() []string {
	var remarks []string
	add := func(set bool, format string, args ...any) {
		if set {
			remarks = append(remarks, fmt.Sprintf(format, args...))
		}
	}
	add(c.Action == Deleted && c.Data == "", "DELETES")
	add(c.Data == dataDeleted, "DELETES DATA PERMANENTLY")
	add(c.Action == Recreated && c.Kind == desired.KindStatefulSet.Kind, "RECREATES, pods keep running")
	add(c.Action == Recreated && c.Kind != desired.KindStatefulSet.Kind, "RECREATES")
	add(c.Restarts > 0, "RESTARTS %s", pluralize(int(c.Restarts), "pod"))
	add(c.Runs, "RUNS")
	add(c.Data == dataGrows, "GROWS")
	add(c.Data == dataRetained, "RETAINED: the data is kept")
	add(c.Data == dataReused, "REUSES RETAINED DATA")
	add(len(c.WaitsFor) > 0, "after %s %s ready", joinAnd(c.WaitsFor), isAre(len(c.WaitsFor)))
	add(c.Estimated, "estimated without the API server")
	add(c.BlockedBy != "", "%s", c.BlockedBy)
	add(c.Reason != "" && c.Action == Rejected, "%s", c.Reason)
	add(c.Reason != "" && c.Action != Rejected, "PARTLY REFUSED: %s", c.Reason)
	return remarks
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// revisionSummary describes saved and pruned revisions.
func (p Plan) revisionSummary() string {
	var parts, pruned []string
	for _, c := range p.Changes {
		if c.Kind != desired.KindRevision.Kind {
			continue
		}
		switch c.Action {
		case Created:
			parts = append(parts, "The spec is saved as a new revision.")
		case Deleted:
			pruned = append(pruned, c.Name)
		case Changed:
			for _, f := range c.Fields {
				if f.Path == "revision" {
					parts = append(parts, fmt.Sprintf("The spec matches revision %v, which becomes revision %v.", f.Old, f.New))
				}
			}
		}
	}
	if len(pruned) > 0 {
		parts = append(parts, fmt.Sprintf("Pruned: ControllerRevision %s.", joinAnd(pruned)))
	}
	return strings.Join(parts, " ")
}

// isDerived reports whether a field is derived from other fields.
func (f Field) isDerived() bool { return slices.Contains(derivedPaths[:2], f.Path) }

// format formats a field as one line, shortened to the width of the terminal.
func (f Field) format(width int) string {
	maxLen := 0
	if width > 0 {
		maxLen = max(width/3, 20)
	}
	switch {
	case f.Unknown || slices.Contains(derivedPaths, f.Path):
		return f.Path + ": changed"
	case f.Old == nil:
		return "+ " + f.Path + ": " + formatValue(f.New, maxLen)
	case f.New == nil:
		return "- " + f.Path + ": " + formatValue(f.Old, maxLen)
	}
	return fmt.Sprintf("%s: %s -> %s", f.Path, formatValue(f.Old, maxLen), formatValue(f.New, maxLen))
}

// maxValueLength is the maximum length of a value without a terminal width.
const maxValueLength = 200

// formatValue formats a value as one line.
func formatValue(value any, maxLen int) string {
	text, isString := value.(string)
	if !isString || strings.ContainsAny(text, "\n\t") || text == "" {
		content, err := json.Marshal(value)
		if err != nil {
			return "?"
		}
		text = string(content)
	}
	if maxLen == 0 {
		maxLen = maxValueLength
	}
	if runes := []rune(text); len(runes) > maxLen {
		return string(runes[:maxLen-3]) + "..."
	}
	return text
}
