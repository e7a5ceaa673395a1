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

// What grows.
const (
	operatorHeap   = "operator, live heap"
	operatorMemory = "operator, resident memory"
	serverMemory   = "API server, resident memory"
	managerMemory  = "controller-manager, resident memory"
	etcdSize       = "etcd, database in use"
	serverCPU      = "CPU of the API server for one more application"
	operatorCPU    = "CPU of the operator for one more application"
)

// slope is something that grows with the number of applications.
type slope struct {
	Name, Unit string
	results.Line
	points []results.Point
	// last is what was measured at the largest size, at the pace that the cores had just then.
	last float64
}

func newSlope(name, unit string, points []results.Point) slope {
	s := slope{Name: name, Unit: unit, Line: results.Fit(points), points: points}
	if len(points) > 0 {
		s.last = points[len(points)-1].Y
	}
	return s
}

// slopes are all that a run has of them.
func slopes(r *results.Run) []slope {
	var heap []results.Point
	for _, h := range r.Heap {
		heap = append(heap, results.Point{X: float64(h.Apps), Y: h.LiveMB})
	}
	return []slope{
		newSlope(operatorHeap, "MiB", heap),
		memorySlope(operatorMemory, r, func(g results.Growth) float64 { return g.RSSMB["contender"] }),
		memorySlope(serverMemory, r, func(g results.Growth) float64 { return g.RSSMB["apiserver"] }),
		memorySlope(managerMemory, r, func(g results.Growth) float64 { return g.RSSMB["controller-manager"] }),
		memorySlope(etcdSize, r, func(g results.Growth) float64 { return g.EtcdMB }),
		cpuSlope(serverCPU, r, "apiserver"),
		cpuSlope(operatorCPU, r, "contender"),
	}
}

func memorySlope(name string, r *results.Run, of func(results.Growth) float64) slope {
	var points []results.Point
	for _, g := range r.Growth {
		points = append(points, results.Point{X: float64(g.To), Y: of(g)})
	}
	return newSlope(name, "MiB", points)
}

// cpuSlope is a line through what the process would have computed at the usual pace of the cores.
func cpuSlope(name string, r *results.Run, process string) slope {
	var points []results.Point
	pace := paces(r.Growth)
	for i, g := range r.Growth {
		points = append(points, results.Point{X: float64(g.From+g.To) / 2, Y: g.CPUMillis[process] * pace[i]})
	}
	s := newSlope(name, "ms", points)
	s.last = r.Growth[len(r.Growth)-1].CPUMillis[process]
	return s
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
func (s slope) Last() string { return amount(s.last, s.Unit) }

// Calculated is where the line leads, if there is one.
func (s slope) Calculated(apps int) string {
	if s.scatters() {
		return "unknown"
	}
	return amount(s.At(float64(apps)), s.Unit)
}

// Within is how it is at a size that was reached: as measured there, else by the line, else anything that was measured.
func (s slope) Within(apps int) string {
	for _, p := range s.points {
		if p.X == float64(apps) {
			return amount(p.Y, s.Unit) + ", measured"
		}
	}
	if !s.scatters() {
		return "*" + amount(s.At(float64(apps)), s.Unit) + ", calculated*"
	}
	least := slices.MinFunc(s.points, func(a, b results.Point) int { return cmp.Compare(a.Y, b.Y) })
	most := slices.MaxFunc(s.points, func(a, b results.Point) int { return cmp.Compare(a.Y, b.Y) })
	return fmt.Sprintf("%s to %s, measured anywhere", amount(least.Y, s.Unit), amount(most.Y, s.Unit))
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

const (
	calculated = "calculated"
	known      = "a threshold of Kubernetes' own"
)

// walls in the order in which a cluster meets them.
func walls(all []slope) []wall {
	out := []wall{
		{apps: 10_000, What: "10,000 Services in a cluster", How: known + ", with one Service each"},
		{apps: 75_000, What: "150,000 pods in a cluster", How: known + ", with two pods each"},
	}
	for _, s := range all {
		if s.scatters() {
			continue
		}
		at := func(size float64, what, how string) {
			if apps := (size - s.Start) / s.Slope; apps > 0 {
				out = append(out, wall{apps: apps, What: what, How: calculated + how})
			}
		}
		const gib = 1024
		switch s.Name {
		case operatorHeap:
			at(300, "300 MiB of live heap for the operator, as much as the 512Mi of an installation have room for: raise its limit and `GOMEMLIMIT`", ", and nobody has tried: that three quarters of GOMEMLIMIT may be live is a rule of thumb")
			at(8*gib, "8 GiB of live heap for the operator", "")
		case serverMemory:
			at(64*gib, "64 GiB of memory for the API server", ", without pods")
		case etcdSize:
			at(2*gib, "2 GiB, which etcd takes unless `--quota-backend-bytes` says otherwise", ", without pods")
			at(8*gib, "8 GiB, the largest database that etcd suggests", ", without pods")
		case serverCPU:
			at(2*s.Start, "the API server needs twice the CPU for one more application", ", where the line above has doubled")
		}
	}
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
