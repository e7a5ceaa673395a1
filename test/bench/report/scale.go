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

// extrapolatedSizes are calculated, not measured.
var extrapolatedSizes = []int{100_000, 1_000_000}

// clusterSize is how many applications one cluster of a fleet has.
const clusterSize = 5000

// Names of the trends.
const (
	operatorHeap   = "operator, live heap"
	operatorMemory = "operator, resident memory"
	serverMemory   = "API server, resident memory"
	managerMemory  = "controller-manager, resident memory"
	etcdSize       = "etcd, database in use"
	serverCPU      = "CPU of the API server for one more application"
	operatorCPU    = "CPU of the operator for one more application"
)

// trend is a measured value by number of applications.
type trend struct {
	Name, Unit string
	results.Line
	points []results.Point
	// last is the value at the largest size, not normalized to the usual speed of the cores.
	last float64
}

func newTrend(name, unit string, points []results.Point) trend {
	s := trend{Name: name, Unit: unit, Line: results.Fit(points), points: points}
	if len(points) > 0 {
		s.last = points[len(points)-1].Y
	}
	return s
}

// trends returns all trends of a run.
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

// cpuTrend fits CPU times normalized to the usual speed of the cores.
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

// coreSpeeds returns the speed of the cores in each step, relative to the median. The driver sends the same requests in every
// step, so its CPU time measures the speed.
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

// minR2 is the smallest R² that is extrapolated: below it, the values vary more than they grow.
const minR2 = 0.5

// isNoise reports whether the values have no significant trend.
func (s trend) isNoise() bool { return s.R2 < minR2 || s.Slope <= 0 }

// PerThousand is the growth per 1,000 applications.
func (s trend) PerThousand() string {
	if s.isNoise() {
		return "not significant"
	}
	return formatAmount(1000*s.Slope, s.Unit)
}

// Last is the value at the largest size.
func (s trend) Last() string { return formatAmount(s.last, s.Unit) }

// Calculated is the extrapolated value.
func (s trend) Calculated(apps int) string {
	if s.isNoise() {
		return "unknown"
	}
	return formatAmount(s.At(float64(apps)), s.Unit)
}

// Within is the value at a size within the measured range: measured, else calculated, else the range of all values.
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
	return fmt.Sprintf("%s to %s, measured at all sizes", formatAmount(lowest.Y, s.Unit), formatAmount(highest.Y, s.Unit))
}

// formatAmount formats a value with a readable unit.
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

// formatThousands formats a number with thousands separators.
func formatThousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// scaleLimit is a limit of one cluster.
type scaleLimit struct {
	atApps    float64
	What, How string
}

// Apps is the number of applications, rounded to two digits.
func (w scaleLimit) Apps() string {
	digits := math.Pow(10, math.Floor(math.Log10(w.atApps))-1)
	return formatThousands(math.Round(w.atApps/digits) * digits)
}

const (
	calculated          = "calculated"
	kubernetesThreshold = "Kubernetes scalability threshold"
)

// scaleLimits returns the limits by number of applications.
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
			addLimit(300, "300 MiB of live heap of the operator, the maximum for the installed limit of 512Mi: raise the limit and `GOMEMLIMIT`",
				", not tested; assumes that three quarters of GOMEMLIMIT can be live heap")
			addLimit(8*gib, "8 GiB of live heap of the operator", "")
		case serverMemory:
			addLimit(64*gib, "64 GiB of memory for the API server", ", without pods")
		case etcdSize:
			addLimit(2*gib, "2 GiB, the default `--quota-backend-bytes` of etcd", ", without pods")
			addLimit(8*gib, "8 GiB, the largest database that etcd recommends", ", without pods")
		case serverCPU:
			addLimit(2*s.Intercept, "the API server needs twice the CPU for one more application", ", where the fitted line reaches twice its value at 0")
		}
	}
	slices.SortFunc(out, func(a, b scaleLimit) int { return cmp.Compare(a.atApps, b.atApps) })
	return out
}

// renderScalePage renders docs/scale.md.
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
