package main

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

//go:embed missed.md.tmpl
var missedReasons string

// writeMissed says of each figure that is not what it must be what is behind it. The words are in a template,
// by row and name of the figure; the numbers in them are those of the run.
func writeMissed(p printer, r *results.Run) error {
	reasons, err := template.New("missed").Funcs(template.FuncMap{
		"got":    func(row, name string) string { return figureValue(r, row, name) },
		"perApp": func(contender, verb, resource string) string { return requestsPerApp(r, contender, verb, resource) },
		"cpu":    func(contender, process string) string { return cpuPerApp(r, contender, process) },
		"longer": func(figure string) string { return extraCPUPerApp(r, figure) },
		"all":    func(contender string) string { return wallRatioOfAllRounds(r, contender) },
		"minus":  func(row, a, b string) string { return difference(r, row, a, b) },
	}).Parse(missedReasons)
	if err != nil {
		return err
	}
	var all []missedFigure
	for _, f := range r.Figures {
		if f.Verdict() != results.Missed {
			continue
		}
		text := &strings.Builder{}
		if reason := reasons.Lookup(f.Row + " " + f.Name); reason == nil {
			text.WriteString("Nobody has found out why. `-pprof=DIR`, with the part that measures it, is how to begin.")
		} else if err := reason.Execute(text, f); err != nil {
			return fmt.Errorf("say why %s %s is missed: %w", f.Row, f.Name, err)
		}
		all = append(all, missedFigure{fmt.Sprintf("**%s %s**: %s, where at most %s was wanted.", f.Row, f.Name, formatNumber(f.Value, f.Unit), formatBound(f.Must, f.Unit)), strings.TrimSpace(text.String())})
	}
	if len(all) > 0 {
		p("## What is not reached\n")
	}
	for i, m := range all {
		if i+1 < len(all) && all[i+1].reason == m.reason {
			p("%s", m.headline)
			continue // for both below
		}
		p("%s\n%s\n", m.headline, m.reason)
	}
	return nil
}

// missedFigure is a figure that is missed, and why.
type missedFigure struct{ headline, reason string }

// figureValue is another figure of the same run.
func figureValue(r *results.Run, row, name string) string {
	if f := findFigure(r, row, name); f.Name != "" {
		return formatNumber(f.Value, f.Unit)
	}
	return notMeasured
}

// difference is by how much one figure is more than another.
func difference(r *results.Run, row, a, b string) string {
	larger, smaller := findFigure(r, row, a), findFigure(r, row, b)
	if larger.Name == "" || smaller.Name == "" {
		return notMeasured
	}
	return formatNumber(larger.Value-smaller.Value, larger.Unit)
}

// notMeasured stands where there is no number.
const notMeasured = "(not measured)"

func findFigure(r *results.Run, row, name string) results.Figure {
	for _, f := range r.Figures {
		if f.Row == row && f.Name == name {
			return f
		}
	}
	return results.Figure{}
}

// requestsPerApp is how often somebody asked for one kind of thing.
func requestsPerApp(r *results.Run, contender, verb, resource string) string {
	sum := 0.0
	for _, q := range r.Requests {
		if q.Contender == contender && q.Verb == verb && strings.HasPrefix(q.Resource, resource) {
			sum += q.PerApp
		}
	}
	return fmt.Sprintf("%.1f", sum)
}

// cpuPerApp is what a process used for one application of somebody.
func cpuPerApp(r *results.Run, contender, process string) string {
	used := r.Values(contender, func(s results.Sample) float64 { return s.CPUSeconds[process] })
	if len(used) == 0 {
		return notMeasured
	}
	return fmt.Sprintf("%.1f ms", 1000/float64(r.Apps)*results.Median(used))
}

// wallRatioOfAllRounds is the ratio by the clock with the rounds in it that were not calm.
func wallRatioOfAllRounds(r *results.Run, contender string) string {
	ratios := r.Ratios("C1", contender, results.WallTime)
	if len(ratios) == 0 {
		return notMeasured
	}
	low, high := results.MinMax(ratios)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", results.Median(ratios), low, high)
}

// extraCPUPerApp is what all cores compute for one application in the time that Holdfast takes longer, by a ratio of times.
func extraCPUPerApp(r *results.Run, figure string) string {
	f := findFigure(r, "P1", figure)
	walls := r.Values("C1", results.WallTime)
	if f.Name == "" || len(walls) == 0 {
		return notMeasured
	}
	cores, _ := strconv.ParseFloat(r.Machine["cores"], 64)
	return fmt.Sprintf("%.1f ms", 1000/float64(r.Apps)*cores*results.Median(walls)*(1-1/f.Value))
}
