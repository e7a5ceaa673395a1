package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Figure is one number that a scenario measured, and what it is held against.
type Figure struct {
	// Row is the scenario, as docs/reports/bench.md lists them.
	Row   string  `json:"row"`
	Name  string  `json:"name"`
	Value float64 `json:"got"`
	Unit  string  `json:"unit,omitempty"`
	// Must and Goal are at most; nil means that it is only told.
	Must *float64 `json:"must,omitempty"`
	Goal *float64 `json:"goal,omitempty"`
	// Note is what a reader has to know to read the number.
	Note string `json:"note,omitempty"`
	// Peak is the worst of a few seconds, of what is otherwise a mean.
	Peak float64 `json:"peak,omitempty"`
}

// WithBounds sets what the figure must be and what it should be.
func (f Figure) WithBounds(must, goal float64) Figure {
	f.Must, f.Goal = &must, &goal
	return f
}

// WithGoal sets what the figure should be, where nothing depends on it.
func (f Figure) WithGoal(goal float64) Figure {
	f.Goal = &goal
	return f
}

// How many cores others may use, on average and for a few seconds, before a latency tells more about
// them: one bad minute in six spoils the slowest of a hundred, and is not seen in the mean.
const (
	maxMeanExternalCores = 0.2
	maxPeakExternalCores = 0.5
)

const repeatMarker = "; TAKE IT AGAIN: "

// MarkRepeat says in the note that a figure tells nothing, and why.
func (f Figure) MarkRepeat(reason string) Figure {
	f.Note += repeatMarker + reason
	return f
}

// DisturbedBy says in the note that others used the machine, if they did: figures of how many cores
// that were.
func (f Figure) DisturbedBy(others ...Figure) Figure {
	for _, o := range others {
		switch {
		case o.Value > maxMeanExternalCores:
			return f.MarkRepeat(fmt.Sprintf("others used %.1f cores", o.Value))
		case o.Peak > maxPeakExternalCores:
			return f.MarkRepeat(fmt.Sprintf("others used %.1f cores for some seconds", o.Peak))
		}
	}
	return f
}

// NeedsRepeat says whether figures are among these that have to be taken again.
func NeedsRepeat(figures []Figure) bool {
	return slices.ContainsFunc(figures, func(f Figure) bool { return strings.Contains(f.Note, repeatMarker) })
}

// Missed is the verdict on a figure that is not what it must be.
const Missed = "MISSED"

// Short is the verdict on a figure that must be nothing, and is not what it should be.
const Short = "short"

// Verdict is "goal", "must", "MISSED", "short", or nothing if there is nothing to hold it against.
func (f Figure) Verdict() string {
	switch {
	case f.Goal != nil && f.Value <= *f.Goal:
		return "goal"
	case f.Goal == nil:
		return ""
	case f.Must == nil:
		return Short
	case f.Value <= *f.Must:
		return "must"
	}
	return Missed
}

func formatBound(b *float64) string {
	if b == nil {
		return ""
	}
	return fmt.Sprintf("%.4g", *b)
}

// PrintFigures prints what was measured beside what was wanted.
func PrintFigures(out io.Writer, all []Figure) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tFIGURE\tGOT\tMUST\tGOAL\tVERDICT\tNOTE")
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%.4g %s\t%s\t%s\t%s\t%s\n", f.Row, f.Name, f.Value, f.Unit, formatBound(f.Must), formatBound(f.Goal), f.Verdict(), f.Note)
	}
	_ = w.Flush()
}
