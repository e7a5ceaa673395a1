package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// peerWallGoals are the target ratios to a peer; the required ratio is 1.
var peerWallGoals = map[string]float64{"C4": 1.0 / 20, "C4t": 1.0 / 3}

// peerRequestGoals are the target shares of a peer's requests.
var peerRequestGoals = map[string]float64{"C4": 1.0 / 4, "C4t": 1.0 / 4, "C4e": 1.0 / 4, "C5": 1.0 / 2}

// burstFigures returns the figures of P1, P2, P14 and CPU.
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
		if !strings.HasPrefix(c.ID, "C4") { // C4 mostly waits: its time does not depend on the speed of the cores
			out = append(out, ratioFigure("P1", "wall at equal pace, "+name, r.Ratios("C1", c.ID, results.NormalizedWallBy("controller-manager"))).WithBounds(1, goal))
		}
		out = append(out,
			ratioFigure("P14", "CPU of all, "+name, r.Ratios("C1", c.ID, totalCPU)))
		if share, ok := peerRequestGoals[c.ID]; ok && requestsPerApp(r, c.ID) > 0 {
			out = append(out, results.Figure{Row: "P2", Name: "requests, " + name, Value: requestsPerApp(r, "C1") / requestsPerApp(r, c.ID), Note: "from the audit log"}.WithGoal(share))
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

// totalCPU returns the CPU time of all processes, including work after the measured time.
func totalCPU(s results.Sample) float64 { return usage(s.CPUSeconds).total() }

// ratioFigure returns the median, with the range in the note.
func ratioFigure(row, name string, all []float64) results.Figure {
	low, high := results.MinMax(all)
	return results.Figure{Row: row, Name: name, Value: results.Median(all), Note: fmt.Sprintf("%d rounds, %.2f to %.2f", len(all), low, high)}
}

// requestFigures returns the figures of P2.
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

// requestsPerApp returns all requests of a contender per application.
func requestsPerApp(r *results.Run, contender string) float64 {
	sum := 0.0
	for _, q := range r.Requests {
		if q.Contender == contender {
			sum += q.PerApp
		}
	}
	return sum
}
