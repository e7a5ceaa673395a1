package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"text/template"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

//go:embed scale.md.tmpl
var scalePage string

// far is what nobody has measured here.
var far = []int{100_000, 1_000_000}

// cluster is how many applications one cluster of a fleet has.
const cluster = 5000

// slope is something that grows with the number of applications.
type slope struct {
	Name, Unit string
	results.Line
	points []results.Point
}

// slopes are all that a run has of them.
func slopes(r *results.Run) []slope {
	all := []slope{
		{Name: "operator, live heap", Unit: "MiB"},
		{Name: "API server, resident memory", Unit: "MiB"},
		{Name: "controller-manager, resident memory", Unit: "MiB"},
		{Name: "etcd, database in use", Unit: "MiB"},
		{Name: "CPU of the API server for one more application", Unit: "ms"},
		{Name: "CPU of the operator for one more application", Unit: "ms"},
	}
	for _, h := range r.Heap {
		all[0].points = append(all[0].points, results.Point{X: float64(h.Apps), Y: h.LiveMB})
	}
	pace := paces(r.Growth)
	for n, g := range r.Growth {
		middle := float64(g.From+g.To) / 2
		for i, p := range []results.Point{
			{X: float64(g.To), Y: g.RSSMB["apiserver"]}, {X: float64(g.To), Y: g.RSSMB["controller-manager"]}, {X: float64(g.To), Y: g.EtcdMB},
			{X: middle, Y: g.CPUMillis["apiserver"] * pace[n]}, {X: middle, Y: g.CPUMillis["contender"] * pace[n]},
		} {
			all[i+1].points = append(all[i+1].points, p)
		}
	}
	for i := range all {
		all[i].Line = results.Fit(all[i].points)
	}
	return all
}

// paces are how fast the cores were for each step, as a part of how fast they usually were. Who creates the applications
// sends the same requests in every step, so what it computes for them is a clock that the cores themselves drive.
func paces(steps []results.Growth) []float64 {
	sender := make([]float64, len(steps))
	for i, g := range steps {
		sender[i] = g.CPUMillis["driver"]
	}
	usual := results.Median(sender)
	for i, ms := range sender {
		if sender[i] = 1; ms > 0 {
			sender[i] = usual / ms
		}
	}
	return sender
}

// straightEnough is the R² from which on a line is drawn on: below, what is measured
// scatters more than it grows.
const straightEnough = 0.5

// scatters says that there is no line to draw on.
func (s slope) scatters() bool { return s.R2 < straightEnough || s.Slope <= 0 }

// PerThousand is what another thousand applications add.
func (s slope) PerThousand() string {
	if s.scatters() {
		return "not told from noise"
	}
	return amount(1000*s.Slope, s.Unit)
}

// Last is what was measured at the largest size.
func (s slope) Last() string { return amount(s.points[len(s.points)-1].Y, s.Unit) }

// Calculated is where the line leads. Where there is none, it is what was measured.
func (s slope) Calculated(apps int) string {
	switch {
	case !s.scatters():
		return amount(s.At(float64(apps)), s.Unit)
	case apps > int(s.points[len(s.points)-1].X):
		return "unknown"
	}
	least := slices.MinFunc(s.points, func(a, b results.Point) int { return cmp.Compare(a.Y, b.Y) })
	most := slices.MaxFunc(s.points, func(a, b results.Point) int { return cmp.Compare(a.Y, b.Y) })
	return fmt.Sprintf("%s to %s, as measured", amount(least.Y, s.Unit), amount(most.Y, s.Unit))
}

// amount is a number as people read it.
func amount(n float64, unit string) string {
	switch {
	case unit == "MiB" && n >= 1024:
		n, unit = n/1024, "GiB"
	case unit == "ms" && n >= 1000:
		n, unit = n/1000, "s"
	}
	if n < 10 {
		return fmt.Sprintf("%.2g %s", n, unit)
	}
	return fmt.Sprintf("%.0f %s", n, unit)
}

// thousands is a number of applications.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// wall is something that ends the growth of one cluster.
type wall struct {
	apps      float64
	What, How string
}

// Apps is where it stands, as exactly as that is known.
func (w wall) Apps() string {
	digits := math.Pow(10, math.Floor(math.Log10(w.apps))-1)
	return thousands(math.Round(w.apps/digits) * digits)
}

// walls in the order in which a cluster meets them.
func walls(all []slope) []wall {
	heap, server, database, price := all[0], all[1], all[3], all[4]
	const gib = 1024
	const calculated, known = "calculated", "a threshold of Kubernetes' own"
	out := []wall{
		{apps: 10_000, What: "10,000 Services in a cluster", How: known + ", with one Service each"},
		{apps: 75_000, What: "150,000 pods in a cluster", How: known + ", with two pods each"},
		{apps: (8*gib - database.Start) / database.Slope, What: "8 GiB, the largest database that etcd suggests", How: calculated + ", without pods"},
		{apps: (64*gib - server.Start) / server.Slope, What: "64 GiB of memory for the API server", How: calculated + ", without pods"},
		{apps: (8*gib - heap.Start) / heap.Slope, What: "8 GiB of live heap for the operator", How: calculated + ", without pods"},
	}
	if !price.scatters() {
		out = append(out, wall{apps: price.Start / price.Slope, What: "the API server needs twice the CPU for one more application", How: calculated + ", where the line above has doubled"})
	}
	out = slices.DeleteFunc(out, func(w wall) bool { return w.apps <= 0 })
	slices.SortFunc(out, func(a, b wall) int { return cmp.Compare(a.apps, b.apps) })
	return out
}

// scale is docs/scale.md.
func scale(r *results.Run) (string, error) {
	t, err := template.New("scale").Funcs(template.FuncMap{"apps": func(n int) string { return thousands(float64(n)) }}).Parse(scalePage)
	if err != nil {
		return "", err
	}
	all := slopes(r)
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Run": r, "Slopes": all, "Far": far, "Walls": walls(all), "Cluster": cluster, "Clusters": 1_000_000 / cluster,
		"Largest": r.Growth[len(r.Growth)-1].To,
	})
	return out.String(), err
}
