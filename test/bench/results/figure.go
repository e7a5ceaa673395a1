package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Figure is one measured value of a scenario, with its limits.
type Figure struct {
	// Row is the scenario, as listed in docs/reports/bench.md.
	Row   string  `json:"row"`
	Name  string  `json:"name"`
	Value float64 `json:"got"`
	Unit  string  `json:"unit,omitempty"`
	// Must and Goal are the required and the target maximum; nil means no limit.
	Must *float64 `json:"must,omitempty"`
	Goal *float64 `json:"goal,omitempty"`
	// Note explains the value.
	Note string `json:"note,omitempty"`
	// Peak is the maximum over a few seconds, if Value is a mean.
	Peak float64 `json:"peak,omitempty"`
}

// WithBounds sets the required and the target maximum.
func (f Figure) WithBounds(must, goal float64) Figure {
	f.Must, f.Goal = &must, &goal
	return f
}

// WithGoal sets a target without a requirement.
func (f Figure) WithGoal(goal float64) Figure {
	f.Goal = &goal
	return f
}

// Maximum CPU use of other processes, on average and for a few seconds, above which a latency is unreliable: one bad
// minute in six affects the p99, but not the mean.
const (
	maxMeanExternalCores = 0.2
	maxPeakExternalCores = 0.5
)

const repeatMarker = "; REPEAT: "

// MarkRepeat marks a figure as unreliable, with the reason.
func (f Figure) MarkRepeat(reason string) Figure {
	f.Note += repeatMarker + reason
	return f
}

// DisturbedBy marks a figure as unreliable if other processes used too much CPU according to these figures.
func (f Figure) DisturbedBy(others ...Figure) Figure {
	for _, o := range others {
		switch {
		case o.Value > maxMeanExternalCores:
			return f.MarkRepeat(fmt.Sprintf("other processes used %.1f cores", o.Value))
		case o.Peak > maxPeakExternalCores:
			return f.MarkRepeat(fmt.Sprintf("other processes used %.1f cores for some seconds", o.Peak))
		}
	}
	return f
}

// NeedsRepeat reports whether a figure is marked as unreliable.
func NeedsRepeat(figures []Figure) bool {
	return slices.ContainsFunc(figures, func(f Figure) bool { return strings.Contains(f.Note, repeatMarker) })
}

// Missed is the verdict for a value above the required maximum.
const Missed = "MISSED"

// Short is the verdict for a value above its target without a required maximum.
const Short = "short"

// Verdict returns "goal", "must", "MISSED" or "short"; "" without limits.
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

// PrintFigures prints the values with their limits.
func PrintFigures(out io.Writer, all []Figure) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tFIGURE\tGOT\tMUST\tGOAL\tVERDICT\tNOTE")
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%.4g %s\t%s\t%s\t%s\t%s\n", f.Row, f.Name, f.Value, f.Unit, formatBound(f.Must), formatBound(f.Goal), f.Verdict(), f.Note)
	}
	_ = w.Flush()
}
