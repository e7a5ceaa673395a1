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
	Row  string  `json:"row"`
	Name string  `json:"name"`
	Got  float64 `json:"got"`
	Unit string  `json:"unit,omitempty"`
	// Must and Goal are at most; nil means that it is only told.
	Must *float64 `json:"must,omitempty"`
	Goal *float64 `json:"goal,omitempty"`
	// Note is what a reader has to know to read the number.
	Note string `json:"note,omitempty"`
	// Peak is the worst of a few seconds, of what is otherwise a mean.
	Peak float64 `json:"peak,omitempty"`
}

// AtMost sets what the figure must be and what it should be.
func (f Figure) AtMost(must, goal float64) Figure {
	f.Must, f.Goal = &must, &goal
	return f
}

// Towards sets what the figure should be, where nothing depends on it.
func (f Figure) Towards(goal float64) Figure {
	f.Goal = &goal
	return f
}

// How many cores others may use, on average and for a few seconds, before a latency tells more about
// them: one bad minute in six spoils the slowest of a hundred, and is not seen in the mean.
const (
	calmMachine = 0.2
	calmSeconds = 0.5
)

const takeItAgain = "; TAKE IT AGAIN: "

// TakeAgain says in the note that a figure tells nothing, and why.
func (f Figure) TakeAgain(why string) Figure {
	f.Note += takeItAgain + why
	return f
}

// DisturbedBy says in the note that others used the machine, if they did: figures of how many cores
// that were.
func (f Figure) DisturbedBy(others ...Figure) Figure {
	for _, o := range others {
		switch {
		case o.Got > calmMachine:
			return f.TakeAgain(fmt.Sprintf("others used %.1f cores", o.Got))
		case o.Peak > calmSeconds:
			return f.TakeAgain(fmt.Sprintf("others used %.1f cores for some seconds", o.Peak))
		}
	}
	return f
}

// Disturbed says whether figures are among these that have to be taken again.
func Disturbed(figures []Figure) bool {
	return slices.ContainsFunc(figures, func(f Figure) bool { return strings.Contains(f.Note, takeItAgain) })
}

// Missed is the verdict on a figure that is not what it must be.
const Missed = "MISSED"

// Short is the verdict on a figure that must be nothing, and is not what it should be.
const Short = "short"

// Verdict is "goal", "must", "MISSED", "short", or nothing if there is nothing to hold it against.
func (f Figure) Verdict() string {
	switch {
	case f.Goal != nil && f.Got <= *f.Goal:
		return "goal"
	case f.Goal == nil:
		return ""
	case f.Must == nil:
		return Short
	case f.Got <= *f.Must:
		return "must"
	}
	return Missed
}

func bound(b *float64) string {
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
		fmt.Fprintf(w, "%s\t%s\t%.4g %s\t%s\t%s\t%s\t%s\n", f.Row, f.Name, f.Got, f.Unit, bound(f.Must), bound(f.Goal), f.Verdict(), f.Note)
	}
	_ = w.Flush()
}
