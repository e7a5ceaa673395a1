package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// renderPage is the page; images is where its pictures are, seen from there.
func renderPage(r *results.Run, images string) (string, error) {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("# How fast, beside whom\n")
	p("Made by `make bench PROFILE=%s` (%.0f min) on kernel %s, %s x %s, %s of memory, %s. Do not edit.", r.Profile, r.Minutes, r.Machine["kernel"], r.Machine["cores"], r.Machine["cpu"], r.Machine["memory"], r.Machine["go"])
	p("%s. etcd %s, everything shares the cores; for each contender a fresh control plane.", r.Machine["engines"], r.Machine["etcd"])
	writeSessions(p, r)
	p("What counts is the ratio within one round: the machine is nobody's reference, and hardware of yours will have other seconds.")
	p("[%s](%s) has every sample.\n", rawDataFile, rawDataFile)
	p("![wall time of all contenders](%s/%s)\n", images, wallChartFile)
	writeFigures(p, r)
	if err := writeMissed(p, r); err != nil {
		return "", err
	}
	writeContenders(p, r)
	writeRequests(p, r)
	if len(r.Heap) > 1 {
		p("## Memory\n\n![live heap by number of applications](%s/%s)\n", images, heapChartFile)
	}
	writeGrowth(p, r)
	writeRounds(p, r)
	p("## Flags\n\nThose of the rounds; in scenarios etcd waits for no disk (`--unsafe-no-fsync`).\n")
	for _, program := range slices.Sorted(maps.Keys(r.Flags)) {
		p("- %s: `%s`", program, strings.Join(r.Flags[program], " "))
	}
	return b.String(), nil
}

type printer func(format string, args ...any)

// writeSessions say when it was measured, if that was not in one go: whoever compares two figures has
// to know that they are of different hours.
func writeSessions(p printer, r *results.Run) {
	var sessions []string
	for _, part := range r.Parts {
		note := ""
		switch {
		case part.Disturbed:
			note = ", disturbed by others: does not count"
		case !part.Complete:
			note = ", broken off"
		}
		sessions = append(sessions, fmt.Sprintf("%s from %s, %.0f min%s", part.Name, part.StartedAt.Format("2006-01-02 15:04"), part.Minutes, note))
	}
	if len(sessions) > 0 {
		p("Measured at commit %s: %s.", r.Machine["commit"], strings.Join(sessions, "; "))
	}
}

func writeFigures(p printer, r *results.Run) {
	p("## What was asked for\n\nBounds are at most: *must* is what a release has to hold, *goal* is what we want. The last column says which of them is reached; "+
		"*short* is short of a goal where nothing is a must, and what is %s is explained below. Of rounds and pairs the figure is the median, and the note has the lowest and the highest, or all of them: where these lie on both sides of a bound, the machine was measured more than we were.\n", results.Missed)
	p("| row | figure | got | must | goal | |\n| --- | --- | --- | --- | --- | --- |")
	for _, f := range r.Figures {
		if f.Goal == nil {
			continue
		}
		p("| %s | %s | %s | %s | %s | %s |", f.Row, nameWithNote(f), formatNumber(f.Value, f.Unit), formatBound(f.Must, f.Unit), formatBound(f.Goal, f.Unit), f.Verdict())
	}
	p("\nAnd what was only looked at:\n\n| row | figure | got |\n| --- | --- | --- |")
	for _, f := range r.Figures {
		if f.Goal == nil {
			p("| %s | %s | %s |", f.Row, nameWithNote(f), formatNumber(f.Value, f.Unit))
		}
	}
	p("")
}

// writeGrowth is what one more application costs when there are many.
func writeGrowth(p printer, r *results.Run) {
	if len(r.Growth) == 0 {
		return
	}
	p("## Growth\n\nWhat one more application costs when there are so many, in ms of CPU, and how long all of a step took. Who creates them sends the same each time: what that takes says how fast the cores were.\n")
	p("| from | to | API server | etcd | controller-manager | operator | who creates them | seconds |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, g := range r.Growth {
		p("| %d | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.0f |", g.From, g.To, g.CPUMillis["apiserver"], g.CPUMillis["etcd"], g.CPUMillis["controller-manager"], g.CPUMillis["contender"], g.CPUMillis["driver"], g.Seconds)
	}
	p("")
}

func nameWithNote(f results.Figure) string {
	if f.Note == "" {
		return f.Name
	}
	return f.Name + " (" + f.Note + ")"
}

func formatNumber(n float64, unit string) string {
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", n, unit))
}

func formatBound(b *float64, unit string) string {
	if b == nil {
		return ""
	}
	return formatNumber(*b, unit)
}

func writeContenders(p printer, r *results.Run) {
	p("## Contenders\n\n%d applications at once, each a Deployment without pods and a Service. Ratios are by the clock, of the rounds in which the machine kept its pace (see [rounds](#rounds)); the rest are medians of all that count.\n", r.Apps)
	p("| | wall | / %s (lowest to highest) | calls per app | writes of etcd per app | CPU per app: its own, API server | peak memory |\n| --- | --- | --- | --- | --- | --- | --- |", results.BareContender)
	apps := float64(r.Apps)
	for _, c := range r.Contenders {
		median := func(of func(results.Sample) float64) float64 { return results.Median(r.Values(c.ID, of)) }
		ratios := r.WallRatios(c.ID, results.BareContender)
		if len(ratios) == 0 {
			continue
		}
		low, high := results.MinMax(ratios)
		own, memory := "", ""
		if ms := 1000 * median(func(s results.Sample) float64 { return s.CPUSeconds["contender"] }) / apps; ms > 0 {
			own, memory = fmt.Sprintf("%.1f ms, ", ms), fmt.Sprintf("%.0f MiB", median(func(s results.Sample) float64 { return s.PeakRSSMB }))
		}
		p("| %s %s | %.2f s | %.2f (%.2f to %.2f) | %.1f | %.1f | %s%.1f ms | %s |", c.ID, c.Name, median(results.WallTime), results.Median(ratios), low, high,
			median(func(s results.Sample) float64 { return float64(s.Calls) })/apps, median(func(s results.Sample) float64 { return float64(s.Revisions) })/apps,
			own, 1000*median(func(s results.Sample) float64 { return s.CPUSeconds["apiserver"] })/apps, memory)
	}
	p("")
	for _, c := range r.Contenders {
		p("- **%s %s**: %s", c.ID, c.Name, c.About)
	}
	p("")
}

func writeRequests(p printer, r *results.Run) {
	p("## Requests per application\n\nFrom the audit log of a run of its own.\n\n| | request | per application | refused in all |\n| --- | --- | --- | --- |")
	for _, q := range r.Requests {
		p("| %s | %s %s | %.2f | %d |", q.Contender, q.Verb, q.Resource, q.PerApp, q.Rejected)
	}
	p("")
}

func writeRounds(p printer, r *results.Run) {
	p("## Rounds\n\nThe bare engine runs right before and right after two runs of Holdfast, and a ratio is that of the means of a round. The others run once, after these four and, in every second round, before them. " +
		"On a machine that others use, the same program takes longer a minute later; how much longer etcd and the controller-manager compute for the same writes says how much of that is the machine. " +
		"Wall time per CPU of these two is called wall time at an equal pace. It is no better a clock than the two agree, which the last two columns show, and it is blind to a contender that makes one of them cheaper or dearer. " +
		"A round whose two bare runs are more than a tenth apart at an equal pace counts for nothing. By the clock, only those rounds are compared in which the bare runs are within a tenth by the clock and nobody took cores away, if there are any. Peers are compared at an equal pace, too: by the controller-manager alone, which does the same for everybody's Deployments, and a little more for who writes the status of applications more often: there it is too hard on Holdfast.\n")
	p("| round | order | bare apart, by the clock | at equal pace | counts | Holdfast / %s by the clock | at equal pace | of etcd alone | of the controller-manager alone |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |", results.BareContender)
	for i, round := range r.Rounds {
		counts := "yes"
		if round.Discarded {
			counts = "thrown away"
		}
		row := fmt.Sprintf("| %d | %s | %.1f %% | %.1f %% | %s |", i+1, strings.Join(round.Order, " "), 100*round.Spread, 100*round.NormalizedSpread, counts)
		round.Discarded = false // what it would have said is told
		singleRound := &results.Run{Rounds: []results.Round{round}}
		for _, metric := range []func(results.Sample) float64{results.WallTime, results.NormalizedWall, results.NormalizedWallBy("etcd"), results.NormalizedWallBy("controller-manager")} {
			cell := ""
			if ratio := singleRound.Ratios("C1", results.BareContender, metric); len(ratio) > 0 {
				cell = fmt.Sprintf("%.2f", ratio[0])
			}
			row += " " + cell + " |"
		}
		p("%s", row)
	}
	p("")
}
