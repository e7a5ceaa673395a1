package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// peerWallGoals is what a ratio to a peer should be at most; it must be less than one with all of them.
var peerWallGoals = map[string]float64{"C4": 1.0 / 20, "C4t": 1.0 / 3}

// peerRequestGoals is what share of a peer's requests Holdfast should make at most.
var peerRequestGoals = map[string]float64{"C4": 1.0 / 4, "C4t": 1.0 / 4, "C4e": 1.0 / 4, "C5": 1.0 / 2}

// burstFigures are the figures of P1, P2 and P14, and of the CPU.
func burstFigures(r *results.Run) []results.Figure {
	ours := "Holdfast / " + results.BareContender
	out := []results.Figure{
		ratioFigure("P1", "wall, "+ours, r.WallRatios("C1", results.BareContender)).WithBounds(1.25, 1.10),
		ratioFigure("P1", "wall at equal pace, "+ours, r.Ratios("C1", results.BareContender, results.NormalizedWall)).WithBounds(1.25, 1.10),
		{Row: "P1", Name: "wall, Holdfast", Value: results.Median(r.Values("C1", results.WallTime)), Unit: "s"},
	}
	for _, c := range r.Contenders {
		if c.ID <= "C1" {
			continue
		}
		name, goal := "Holdfast / "+c.ID+" "+c.Name, 1.0
		if peerGoal, ok := peerWallGoals[c.ID]; ok {
			goal = peerGoal
		}
		out = append(out, ratioFigure("P1", "wall, "+name, r.WallRatios("C1", c.ID)).WithBounds(1, goal))
		if !strings.HasPrefix(c.ID, "C4") { // which waits: its time does not follow the pace of the cores
			out = append(out, ratioFigure("P1", "wall at equal pace, "+name, r.Ratios("C1", c.ID, results.NormalizedWallBy("controller-manager"))).WithBounds(1, goal))
		}
		out = append(out,
			ratioFigure("P14", "CPU of all, "+name, r.Ratios("C1", c.ID, totalCPU)))
		if share, ok := peerRequestGoals[c.ID]; ok && requestsPerApp(r, c.ID) > 0 {
			out = append(out, results.Figure{Row: "P2", Name: "requests, " + name, Value: requestsPerApp(r, "C1") / requestsPerApp(r, c.ID), Note: "of the audited run"}.WithGoal(share))
		}
	}
	return append(append(out, requestFigures(r)...),
		ratioFigure("P14", "CPU of the API server, "+ours, r.Ratios("C1", results.BareContender, func(s results.Sample) float64 { return s.CPUSeconds[apiServerCPU] })),
		ratioFigure("P14", "CPU of etcd, "+ours, r.Ratios("C1", results.BareContender, func(s results.Sample) float64 { return s.CPUSeconds[etcdCPU] })),
		ratioFigure("P14", "CPU of all, "+ours, r.Ratios("C1", results.BareContender, totalCPU)),
		ratioFigure("P14", "etcd, "+ours, r.Ratios("C1", results.BareContender, func(s results.Sample) float64 { return s.EtcdMB })),
		ratioFigure("P14", "writes that etcd took, "+ours, r.Ratios("C1", results.BareContender, func(s results.Sample) float64 { return float64(s.Revisions) })),
		results.Figure{Row: "CPU", Name: "of the operator per application", Value: 1000 * results.Median(r.Values("C1", func(s results.Sample) float64 { return s.CPUSeconds[contenderCPU] })) / float64(r.Apps), Unit: "ms"}.WithBounds(8, 2),
	)
}

// totalCPU is the CPU of all that take part, with what comes after the clock.
func totalCPU(s results.Sample) float64 { return usage(s.CPUSeconds).total() }

// ratioFigure is the one in the middle, and says how far the others are.
func ratioFigure(row, name string, all []float64) results.Figure {
	low, high := results.MinMax(all)
	return results.Figure{Row: row, Name: name, Value: results.Median(all), Note: fmt.Sprintf("%d rounds, %.2f to %.2f", len(all), low, high)}
}

// requestFigures are the figures of P2.
func requestFigures(r *results.Run) []results.Figure {
	writes, reads := 0.0, 0.0
	for _, q := range r.Requests {
		switch {
		case q.Contender != "C1":
		case slices.Contains([]string{"get", "list", "watch"}, q.Verb):
			reads += q.PerApp
		default:
			writes += q.PerApp
		}
	}
	const children, status, events = 2, 2, 2
	calls := results.Median(r.Values("C1", func(s results.Sample) float64 { return float64(s.Calls) }))
	return []results.Figure{
		results.Figure{Row: "P2", Name: "writes per application", Value: writes, Note: "2 children, 2 status, 2 events"}.WithBounds(children+status+events, children+status+events),
		results.Figure{Row: "P2", Name: "reads per application", Value: reads}.WithBounds(0, 0),
		{Row: "P2", Name: "calls per application in the timed run", Value: calls / float64(r.Apps)},
	}
}

// requestsPerApp is how many somebody made per application, whatever for.
func requestsPerApp(r *results.Run, contender string) float64 {
	sum := 0.0
	for _, q := range r.Requests {
		if q.Contender == contender {
			sum += q.PerApp
		}
	}
	return sum
}
