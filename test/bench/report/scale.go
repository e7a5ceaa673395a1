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
var scaleTemplate string

// extrapolatedSizes is what nobody has measured here.
var extrapolatedSizes = []int{100_000, 1_000_000}

// clusterSize is how many applications one cluster of a fleet has.
const clusterSize = 5000

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

// trend is something that grows with the number of applications.
type trend struct {
	Name, Unit string
	results.Line
	points []results.Point
	// last is what was measured at the largest size, at the pace that the cores had just then.
	last float64
}

func newTrend(name, unit string, points []results.Point) trend {
	s := trend{Name: name, Unit: unit, Line: results.Fit(points), points: points}
	if len(points) > 0 {
		s.last = points[len(points)-1].Y
	}
	return s
}

// trends are all that a run has of them.
func trends(r *results.Run) []trend {
	var heap []results.Point
	for _, h := range r.Heap {
		heap = append(heap, results.Point{X: float64(h.Apps), Y: h.LiveMB})
	}
	return []trend{
		newTrend(operatorHeap, "MiB", heap),
		memoryTrend(operatorMemory, r, func(g results.GrowthStep) float64 { return g.RSSMB["contender"] }),
		memoryTrend(serverMemory, r, func(g results.GrowthStep) float64 { return g.RSSMB["apiserver"] }),
		memoryTrend(managerMemory, r, func(g results.GrowthStep) float64 { return g.RSSMB["controller-manager"] }),
		memoryTrend(etcdSize, r, func(g results.GrowthStep) float64 { return g.EtcdMB }),
		cpuTrend(serverCPU, r, "apiserver"),
		cpuTrend(operatorCPU, r, "contender"),
	}
}

func memoryTrend(name string, r *results.Run, value func(results.GrowthStep) float64) trend {
	var points []results.Point
	for _, g := range r.Growth {
		points = append(points, results.Point{X: float64(g.To), Y: value(g)})
	}
	return newTrend(name, "MiB", points)
}

// cpuTrend is a line through what the process would have computed at the usual pace of the cores.
func cpuTrend(name string, r *results.Run, process string) trend {
	var points []results.Point
	pace := coreSpeeds(r.Growth)
	for i, g := range r.Growth {
		points = append(points, results.Point{X: float64(g.From+g.To) / 2, Y: g.CPUMillis[process] * pace[i]})
	}
	s := newTrend(name, "ms", points)
	s.last = r.Growth[len(r.Growth)-1].CPUMillis[process]
	return s
}

// coreSpeeds are how fast the cores were for each step, as a part of how fast they usually were. Who creates the applications
// sends the same requests in every step, so what it computes for them is a clock that the cores themselves drive.
func coreSpeeds(steps []results.GrowthStep) []float64 {
	driverCPU := make([]float64, len(steps))
	for i, g := range steps {
		driverCPU[i] = g.CPUMillis["driver"]
	}
	median := results.Median(driverCPU)
	for i, ms := range driverCPU {
		if driverCPU[i] = 1; ms > 0 {
			driverCPU[i] = median / ms
		}
	}
	return driverCPU
}

// minR2 is the R² from which on a line is drawn on: below, what is measured
// scatters more than it grows.
const minR2 = 0.5

// isNoise says that there is no line to draw on.
func (s trend) isNoise() bool { return s.R2 < minR2 || s.Slope <= 0 }

// PerThousand is what another thousand applications add.
func (s trend) PerThousand() string {
	if s.isNoise() {
		return "not told from noise"
	}
	return formatAmount(1000*s.Slope, s.Unit)
}

// Last is what was measured at the largest size.
func (s trend) Last() string { return formatAmount(s.last, s.Unit) }

// Calculated is where the line leads, if there is one.
func (s trend) Calculated(apps int) string {
	if s.isNoise() {
		return "unknown"
	}
	return formatAmount(s.At(float64(apps)), s.Unit)
}

// Within is how it is at a size that was reached: as measured there, else by the line, else anything that was measured.
func (s trend) Within(apps int) string {
	for _, p := range s.points {
		if p.X == float64(apps) {
			return formatAmount(p.Y, s.Unit) + ", measured"
		}
	}
	if !s.isNoise() {
		return "*" + formatAmount(s.At(float64(apps)), s.Unit) + ", calculated*"
	}
	lowest := slices.MinFunc(s.points, func(a, b results.Point) int { return cmp.Compare(a.Y, b.Y) })
	highest := slices.MaxFunc(s.points, func(a, b results.Point) int { return cmp.Compare(a.Y, b.Y) })
	return fmt.Sprintf("%s to %s, measured anywhere", formatAmount(lowest.Y, s.Unit), formatAmount(highest.Y, s.Unit))
}

// formatAmount is a number as people read it.
func formatAmount(n float64, unit string) string {
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

// formatThousands is a number of applications.
func formatThousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// scaleLimit is something that ends the growth of one cluster.
type scaleLimit struct {
	atApps    float64
	What, How string
}

// Apps is where it stands, as exactly as that is known.
func (w scaleLimit) Apps() string {
	digits := math.Pow(10, math.Floor(math.Log10(w.atApps))-1)
	return formatThousands(math.Round(w.atApps/digits) * digits)
}

const (
	calculated          = "calculated"
	kubernetesThreshold = "a threshold of Kubernetes' own"
)

// scaleLimits in the order in which a cluster meets them.
func scaleLimits(all []trend) []scaleLimit {
	out := []scaleLimit{
		{atApps: 10_000, What: "10,000 Services in a cluster", How: kubernetesThreshold + ", with one Service each"},
		{atApps: 75_000, What: "150,000 pods in a cluster", How: kubernetesThreshold + ", with two pods each"},
	}
	for _, s := range all {
		if s.isNoise() {
			continue
		}
		addLimit := func(size float64, what, how string) {
			if apps := (size - s.Intercept) / s.Slope; apps > 0 {
				out = append(out, scaleLimit{atApps: apps, What: what, How: calculated + how})
			}
		}
		const gib = 1024
		switch s.Name {
		case operatorHeap:
			addLimit(300, "300 MiB of live heap for the operator, as much as the 512Mi of an installation have room for: raise its limit and `GOMEMLIMIT`", ", and nobody has tried: that three quarters of GOMEMLIMIT may be live is a rule of thumb")
			addLimit(8*gib, "8 GiB of live heap for the operator", "")
		case serverMemory:
			addLimit(64*gib, "64 GiB of memory for the API server", ", without pods")
		case etcdSize:
			addLimit(2*gib, "2 GiB, which etcd takes unless `--quota-backend-bytes` says otherwise", ", without pods")
			addLimit(8*gib, "8 GiB, the largest database that etcd suggests", ", without pods")
		case serverCPU:
			addLimit(2*s.Intercept, "the API server needs twice the CPU for one more application", ", where the line above has doubled")
		}
	}
	slices.SortFunc(out, func(a, b scaleLimit) int { return cmp.Compare(a.atApps, b.atApps) })
	return out
}

// renderScalePage is docs/scale.md.
func renderScalePage(r *results.Run) (string, error) {
	t, err := template.New("scale").Funcs(template.FuncMap{"apps": func(n int) string { return formatThousands(float64(n)) }}).Parse(scaleTemplate)
	if err != nil {
		return "", err
	}
	all := trends(r)
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Run": r, "Slopes": all, "Far": extrapolatedSizes, "Walls": scaleLimits(all), "Cluster": clusterSize, "Clusters": 1_000_000 / clusterSize,
		"Largest": r.Growth[len(r.Growth)-1].To,
	})
	return out.String(), err
}
