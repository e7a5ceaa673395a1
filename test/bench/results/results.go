// Package results defines the file of a benchmark run: the benchmark writes it to out/bench.json, and the report command
// reads only this file.
package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Run contains all results of a benchmark run.
type Run struct {
	Profile string            `json:"profile"`
	Machine map[string]string `json:"machine"`
	// Flags are the flags of the control plane, which affect all figures.
	Flags map[string][]string `json:"flags"`
	// Minutes is the duration of all parts.
	Minutes float64 `json:"minutes"`
	// Parts are the measured parts in the order of measurement.
	Parts []Part `json:"parts"`
	Apps  int    `json:"apps"`
	// Contenders are in the order of the report.
	Contenders []Contender  `json:"contenders"`
	Rounds     []Round      `json:"rounds"`
	Requests   []Requests   `json:"requests"`
	Heap       []HeapSample `json:"heap,omitempty"`
	Growth     []GrowthStep `json:"growth,omitempty"`
	Figures    []Figure     `json:"figures"`
}

// Part is a part of a run that is measured without interruption.
type Part struct {
	Name      string    `json:"name"`
	StartedAt time.Time `json:"begun"`
	Minutes   float64   `json:"minutes"`
	// Complete means that the part is completely measured.
	Complete bool `json:"whole"`
	// Disturbed means that the part completed, but is invalid.
	Disturbed bool `json:"disturbed,omitempty"`
}

// HasPart reports whether a part is completely measured.
func (r *Run) HasPart(part string) bool {
	return slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Name == part && p.Complete })
}

// ValidRounds returns the number of valid rounds.
func (r *Run) ValidRounds() int {
	n := 0
	for _, round := range r.Rounds {
		if !round.Discarded {
			n++
		}
	}
	return n
}

// Contender is a measured program.
type Contender struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	About string `json:"about"`
}

// Round is one repetition: every contender once, the bare client and the operator twice.
type Round struct {
	Order []string `json:"order"`
	// Spread is the relative difference of the wall times of the two bare runs, and NormalizedSpread that of their
	// normalized times.
	Spread           float64 `json:"spread"`
	NormalizedSpread float64 `json:"spreadAtPace"`
	// Discarded means that the round is invalid, because NormalizedSpread is too large.
	Discarded bool                `json:"thrown,omitempty"`
	Samples   map[string][]Sample `json:"samples"`
}

// Sample is one measurement of one contender.
type Sample struct {
	WallSeconds float64            `json:"wallSeconds"`
	CPUSeconds  map[string]float64 `json:"cpuSeconds"`
	// Calls are the contender's requests, Revisions all writes to etcd, including those of the controller-manager.
	Calls     int     `json:"calls"`
	Revisions int     `json:"revisions"`
	EtcdMB    float64 `json:"etcdMB"`

	PeakRSSMB float64 `json:"peakRSSMB,omitempty"`
}

func (s Sample) hasStolenCPU() bool { return s.CPUSeconds["stolen"] > maxStolenCores*s.WallSeconds }

// Requests is the number of a contender's requests of one verb and resource, per application.
type Requests struct {
	Contender string  `json:"contender"`
	Resource  string  `json:"resource"`
	Verb      string  `json:"verb"`
	Accepted  int     `json:"accepted"`
	Rejected  int     `json:"refused"`
	PerApp    float64 `json:"perApp"`
}

// HeapSample is the live heap of the operator at a number of applications.
type HeapSample struct {
	Apps   int     `json:"apps"`
	LiveMB float64 `json:"liveMB"`
}

// GrowthStep is the cost of growing a population to the next size.
type GrowthStep struct {
	From    int     `json:"from"`
	To      int     `json:"to"`
	Seconds float64 `json:"seconds"`
	// CPUMillis is the CPU time by process, per added application.
	CPUMillis map[string]float64 `json:"cpuMillis"`
	// RSSMB, by process, and EtcdMB are the sizes at the end of the step.
	RSSMB  map[string]float64 `json:"rssMB"`
	EtcdMB float64            `json:"etcdMB"`
}

// BareContender is the reference of all ratios.
const BareContender = "C0s"

// Ratios returns the ratios of a metric of two contenders, usually to the bare client: one per valid round, of the means
// of the round.
func (r *Run) Ratios(contender, to string, metric func(Sample) float64) []float64 {
	var out []float64
	for _, round := range r.Rounds {
		if round.Discarded {
			continue
		}
		if samples, baseline := round.Samples[contender], round.Samples[to]; len(samples) > 0 && len(baseline) > 0 {
			out = append(out, mean(samples, metric)/mean(baseline, metric))
		}
	}
	return out
}

const (
	// maxWallSpread is the maximum relative difference of the wall times of the two bare runs of a round.
	maxWallSpread = 0.10
	// maxStolenCores is the maximum CPU steal of a sample with a reliable wall time.
	maxStolenCores = 0.2
)

// WallRatios returns the ratios of wall times of the rounds with equal bare runs and without CPU steal; of all rounds,
// if there is none.
func (r *Run) WallRatios(contender, to string) []float64 {
	quiet := &Run{}
	for _, round := range r.Rounds {
		if round.Spread <= maxWallSpread && !slices.ContainsFunc(slices.Concat(round.Samples[contender], round.Samples[to]), Sample.hasStolenCPU) {
			quiet.Rounds = append(quiet.Rounds, round)
		}
	}
	if out := quiet.Ratios(contender, to, WallTime); len(out) > 0 {
		return out
	}
	return r.Ratios(contender, to, WallTime)
}

// Values returns a metric of a contender in all valid rounds.
func (r *Run) Values(contender string, metric func(Sample) float64) []float64 {
	var out []float64
	for _, round := range r.Rounds {
		if round.Discarded {
			continue
		}
		for _, s := range round.Samples[contender] {
			out = append(out, metric(s))
		}
	}
	return out
}

func mean(all []Sample, metric func(Sample) float64) float64 {
	sum := 0.0
	for _, s := range all {
		sum += metric(s)
	}
	return sum / float64(len(all))
}

// WallTime is the wall time of a sample.
func WallTime(s Sample) float64 { return s.WallSeconds }

// NormalizedWall is the wall time of a sample relative to the CPU time of etcd and the controller-manager. For the bare
// client and for the operator these two do the same work, so that their CPU time shows the current speed of the machine.
func NormalizedWall(s Sample) float64 {
	return s.WallSeconds / (s.CPUSeconds["etcd"] + s.CPUSeconds["controller-manager"])
}

// NormalizedWallBy normalizes by one of the two. The difference between the two results shows their accuracy. Peers are
// normalized by the controller-manager, which does the same work for the Deployments of every contender, unlike etcd;
// the watches of its garbage collector are included.
func NormalizedWallBy(process string) func(Sample) float64 {
	return func(s Sample) float64 { return s.WallSeconds / s.CPUSeconds[process] }
}

// RelativeDifference returns the difference of two samples relative to their mean.
func RelativeDifference(a, b Sample, metric func(Sample) float64) float64 {
	return 2 * math.Abs(metric(a)-metric(b)) / (metric(a) + metric(b))
}

// Median returns the median; NaN for no values.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MinMax returns the smallest and the largest value.
func MinMax(all []float64) (low, high float64) {
	if len(all) == 0 {
		return 0, 0
	}
	return slices.Min(all), slices.Max(all)
}

// HeapSlope fits a line to the heap samples: KiB per application and R².
func HeapSlope(all []HeapSample) (kib, r2 float64) {
	points := make([]Point, len(all))
	for i, h := range all {
		points[i] = Point{float64(h.Apps), h.LiveMB * 1024}
	}
	line := Fit(points)
	return line.Slope, line.R2
}

// Write writes the run to a file.
func (r *Run) Write(file string) error {
	slices.SortStableFunc(r.Figures, func(a, b Figure) int { return cmp.Or(cmp.Compare(len(a.Row), len(b.Row)), cmp.Compare(a.Row, b.Row)) })
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// Read reads a run from a file.
func Read(file string) (*Run, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w; make bench PROFILE=quick creates it", err)
	}
	var r Run
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return &r, nil
}
