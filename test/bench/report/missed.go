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

// writeMissed writes the reason of each missed figure. The text is in a template, by row and name of the figure; its
// numbers are those of the run.
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
			text.WriteString("Cause unknown. To start, profile the part that measures it with `-pprof=DIR`.")
		} else if err := reason.Execute(text, f); err != nil {
			return fmt.Errorf("render reason for missed figure %s %s: %w", f.Row, f.Name, err)
		}
		all = append(all, missedFigure{fmt.Sprintf("**%s %s**: %s, limit %s.", f.Row, f.Name, formatNumber(f.Value, f.Unit), formatBound(f.Must, f.Unit)), strings.TrimSpace(text.String())})
	}
	if len(all) > 0 {
		p("## Missed requirements\n")
	}
	for i, m := range all {
		if i+1 < len(all) && all[i+1].reason == m.reason {
			p("%s", m.headline)
			continue // both have the same reason
		}
		p("%s\n%s\n", m.headline, m.reason)
	}
	return nil
}

// missedFigure is a missed figure with its reason.
type missedFigure struct{ headline, reason string }

// figureValue formats another figure of the same run.
func figureValue(r *results.Run, row, name string) string {
	if f := findFigure(r, row, name); f.Name != "" {
		return formatNumber(f.Value, f.Unit)
	}
	return notMeasured
}

// difference formats the difference of two figures.
func difference(r *results.Run, row, a, b string) string {
	larger, smaller := findFigure(r, row, a), findFigure(r, row, b)
	if larger.Name == "" || smaller.Name == "" {
		return notMeasured
	}
	return formatNumber(larger.Value-smaller.Value, larger.Unit)
}

// notMeasured replaces a missing number.
const notMeasured = "(not measured)"

func findFigure(r *results.Run, row, name string) results.Figure {
	for _, f := range r.Figures {
		if f.Row == row && f.Name == name {
			return f
		}
	}
	return results.Figure{}
}

// requestsPerApp returns the requests of a contender per application, by verb and resource.
func requestsPerApp(r *results.Run, contender, verb, resource string) string {
	sum := 0.0
	for _, q := range r.Requests {
		if q.Contender == contender && q.Verb == verb && strings.HasPrefix(q.Resource, resource) {
			sum += q.PerApp
		}
	}
	return fmt.Sprintf("%.1f", sum)
}

// cpuPerApp returns the CPU time of a process per application of a contender.
func cpuPerApp(r *results.Run, contender, process string) string {
	used := r.Values(contender, func(s results.Sample) float64 { return s.CPUSeconds[process] })
	if len(used) == 0 {
		return notMeasured
	}
	return fmt.Sprintf("%.1f ms", 1000/float64(r.Apps)*results.Median(used))
}

// wallRatioOfAllRounds returns the ratio of wall times including rounds that were not quiet.
func wallRatioOfAllRounds(r *results.Run, contender string) string {
	ratios := r.Ratios("C1", contender, results.WallTime)
	if len(ratios) == 0 {
		return notMeasured
	}
	low, high := results.MinMax(ratios)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", results.Median(ratios), low, high)
}

// extraCPUPerApp returns the CPU time of all cores per application in the additional time that Holdfast takes.
func extraCPUPerApp(r *results.Run, figure string) string {
	f := findFigure(r, "P1", figure)
	walls := r.Values("C1", results.WallTime)
	if f.Name == "" || len(walls) == 0 {
		return notMeasured
	}
	cores, _ := strconv.ParseFloat(r.Machine["cores"], 64)
	return fmt.Sprintf("%.1f ms", 1000/float64(r.Apps)*cores*results.Median(walls)*(1-1/f.Value))
}
