package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// aim is what a ratio to a peer should be at most; it must be less than one with all of them.
var aim = map[string]float64{"C4": 1.0 / 20, "C4t": 1.0 / 3}

// fewer is what share of a peer's requests Holdfast should make at most.
var fewer = map[string]float64{"C4": 1.0 / 4, "C4t": 1.0 / 4, "C4e": 1.0 / 4, "C5": 1.0 / 2}

// burst are the figures of P1, P2 and P14, and of the CPU.
func burst(r *results.Run) []results.Figure {
	ours := "Holdfast / " + results.Bare
	out := []results.Figure{
		ratio("P1", "wall, "+ours, r.RatiosByClock("C1", results.Bare)).AtMost(1.25, 1.10),
		ratio("P1", "wall at equal pace, "+ours, r.Ratios("C1", results.Bare, results.AtPace)).AtMost(1.25, 1.10),
		{Row: "P1", Name: "wall, Holdfast", Got: results.Median(r.Values("C1", results.Wall)), Unit: "s"},
	}
	for _, c := range r.Contenders {
		if c.ID <= "C1" {
			continue
		}
		name, goal := "Holdfast / "+c.ID+" "+c.Name, 1.0
		if aimed, ok := aim[c.ID]; ok {
			goal = aimed
		}
		out = append(out, ratio("P1", "wall, "+name, r.RatiosByClock("C1", c.ID)).AtMost(1, goal))
		if !strings.HasPrefix(c.ID, "C4") { // which waits: its time does not follow the pace of the cores
			out = append(out, ratio("P1", "wall at equal pace, "+name, r.Ratios("C1", c.ID, results.AtPaceOf("controller-manager"))).AtMost(1, goal))
		}
		out = append(out,
			ratio("P14", "CPU of all, "+name, r.Ratios("C1", c.ID, ofAll)))
		if share, ok := fewer[c.ID]; ok && requestsOf(r, c.ID) > 0 {
			out = append(out, results.Figure{Row: "P2", Name: "requests, " + name, Got: requestsOf(r, "C1") / requestsOf(r, c.ID), Note: "of the audited run"}.Towards(share))
		}
	}
	return append(append(out, counted(r)...),
		ratio("P14", "CPU of the API server, "+ours, r.Ratios("C1", results.Bare, func(s results.Sample) float64 { return s.CPUSeconds[apiServerCPU] })),
		ratio("P14", "CPU of etcd, "+ours, r.Ratios("C1", results.Bare, func(s results.Sample) float64 { return s.CPUSeconds[etcdCPU] })),
		ratio("P14", "CPU of all, "+ours, r.Ratios("C1", results.Bare, ofAll)),
		ratio("P14", "etcd, "+ours, r.Ratios("C1", results.Bare, func(s results.Sample) float64 { return s.EtcdMB })),
		ratio("P14", "writes that etcd took, "+ours, r.Ratios("C1", results.Bare, func(s results.Sample) float64 { return float64(s.Revisions) })),
		results.Figure{Row: "CPU", Name: "of the operator per application", Got: 1000 * results.Median(r.Values("C1", func(s results.Sample) float64 { return s.CPUSeconds[contenderCPU] })) / float64(r.Apps), Unit: "ms"}.AtMost(8, 2),
	)
}

// ofAll is the CPU of all that take part, with what comes after the clock.
func ofAll(s results.Sample) float64 { return usage(s.CPUSeconds).total() }

// ratio is the one in the middle, and says how far the others are.
func ratio(row, name string, all []float64) results.Figure {
	low, high := results.Spread(all)
	return results.Figure{Row: row, Name: name, Got: results.Median(all), Note: fmt.Sprintf("%d rounds, %.2f to %.2f", len(all), low, high)}
}

// counted are the figures of P2.
func counted(r *results.Run) []results.Figure {
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
		results.Figure{Row: "P2", Name: "writes per application", Got: writes, Note: "2 children, 2 status, 2 events"}.AtMost(children+status+events, children+status+events),
		results.Figure{Row: "P2", Name: "reads per application", Got: reads}.AtMost(0, 0),
		{Row: "P2", Name: "calls per application in the timed run", Got: calls / float64(r.Apps)},
	}
}

// requestsOf is how many somebody made per application, whatever for.
func requestsOf(r *results.Run, contender string) float64 {
	sum := 0.0
	for _, q := range r.Requests {
		if q.Contender == contender {
			sum += q.PerApp
		}
	}
	return sum
}
