// Package results is what a run of the benchmark leaves: the measuring side fills it and writes
// it to out/bench.json, the reporting side makes pages and pictures of that file alone.
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

// Run is everything that one run of the benchmark has found.
type Run struct {
	Profile string            `json:"profile"`
	Machine map[string]string `json:"machine"`
	// Flags of the control plane, without which figures cannot be compared.
	Flags map[string][]string `json:"flags"`
	// Minutes are those of all parts.
	Minutes float64 `json:"minutes"`
	// Parts are what has been measured, in the order in which it was.
	Parts []Part `json:"parts"`
	Apps  int    `json:"apps"`
	// Contenders in the order of the report.
	Contenders []Contender  `json:"contenders"`
	Rounds     []Round      `json:"rounds"`
	Requests   []Requests   `json:"requests"`
	Heap       []HeapSample `json:"heap,omitempty"`
	Growth     []GrowthStep `json:"growth,omitempty"`
	Figures    []Figure     `json:"figures"`
}

// Part is a piece of a run that is measured in one go.
type Part struct {
	Name      string    `json:"name"`
	StartedAt time.Time `json:"begun"`
	Minutes   float64   `json:"minutes"`
	// Complete says that nothing is left of it to measure.
	Complete bool `json:"whole"`
	// Disturbed says that it came to its end, and does not count.
	Disturbed bool `json:"disturbed,omitempty"`
}

// HasPart says whether a part has been measured.
func (r *Run) HasPart(part string) bool {
	return slices.ContainsFunc(r.Parts, func(p Part) bool { return p.Name == part && p.Complete })
}

// ValidRounds is how many rounds count.
func (r *Run) ValidRounds() int {
	n := 0
	for _, round := range r.Rounds {
		if !round.Discarded {
			n++
		}
	}
	return n
}

// Contender is who was measured.
type Contender struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	About string `json:"about"`
}

// Round is one repetition: every contender once, the bare engine and the operator twice.
type Round struct {
	Order []string `json:"order"`
	// Spread is how far the two runs of the bare engine are apart, as a share of their mean, by the clock, and
	// NormalizedSpread what is left of it at an equal pace of the machine.
	Spread           float64 `json:"spread"`
	NormalizedSpread float64 `json:"spreadAtPace"`
	// Discarded says that nothing here counts, as what was left was too much.
	Discarded bool                `json:"thrown,omitempty"`
	Samples   map[string][]Sample `json:"samples"`
}

// Sample is one measurement of one contender.
type Sample struct {
	WallSeconds float64            `json:"wallSeconds"`
	CPUSeconds  map[string]float64 `json:"cpuSeconds"`
	// Calls are requests of the contender that the API server let through, Revisions all writes
	// that etcd took, those of the controller-manager among them.
	Calls     int     `json:"calls"`
	Revisions int     `json:"revisions"`
	EtcdMB    float64 `json:"etcdMB"`

	PeakRSSMB float64 `json:"peakRSSMB,omitempty"`
}

func (s Sample) hasStolenCPU() bool { return s.CPUSeconds["stolen"] > maxStolenCores*s.WallSeconds }

// Requests is how often a contender asked for one kind of thing, per application.
type Requests struct {
	Contender string  `json:"contender"`
	Resource  string  `json:"resource"`
	Verb      string  `json:"verb"`
	Accepted  int     `json:"accepted"`
	Rejected  int     `json:"refused"`
	PerApp    float64 `json:"perApp"`
}

// HeapSample is what was live in the operator with so many applications.
type HeapSample struct {
	Apps   int     `json:"apps"`
	LiveMB float64 `json:"liveMB"`
}

// GrowthStep is what it took to get from one size of a population to the next.
type GrowthStep struct {
	From    int     `json:"from"`
	To      int     `json:"to"`
	Seconds float64 `json:"seconds"`
	// CPU by process, per application that was added.
	CPUMillis map[string]float64 `json:"cpuMillis"`
	// RSSMB by process, and EtcdMB, are how large they were at the end of the step.
	RSSMB  map[string]float64 `json:"rssMB"`
	EtcdMB float64            `json:"etcdMB"`
}

// BareContender is the contender that all others are a ratio to.
const BareContender = "C0s"

// Ratios are a number of a contender as a ratio to another one, usually the bare engine: one for
// each round that counts, of the means within it.
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
	// maxWallSpread is how far the two bare runs of a round may be apart by the clock.
	maxWallSpread = 0.10
	// maxStolenCores is how many cores others may take away from a sample whose time is worth something.
	maxStolenCores = 0.2
)

// WallRatios are ratios of wall times of those rounds in which the bare engine took the same time twice, and nobody
// took cores away from the two that are compared; of all, if there is no such round.
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

// Values are a number of a contender in all rounds that count.
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

// NormalizedWall is the wall time of a sample at a pace of the machine at which etcd and the controller-manager need one second.
// For the bare engine and for the operator these two do the same work: the same writes, the same objects. What they need for
// it says how fast the machine was just then, as it was for everybody.
func NormalizedWall(s Sample) float64 {
	return s.WallSeconds / (s.CPUSeconds["etcd"] + s.CPUSeconds["controller-manager"])
}

// NormalizedWallBy is the same by one of the two alone. How far that is from the other says how good a clock they are. With
// peers it is by the controller-manager, which does the same for everybody's Deployments, whoever writes more or less to etcd;
// that its garbage collector watches the applications, too, is not taken out.
func NormalizedWallBy(process string) func(Sample) float64 {
	return func(s Sample) float64 { return s.WallSeconds / s.CPUSeconds[process] }
}

// RelativeDifference is how far two samples are apart, as a share of their mean.
func RelativeDifference(a, b Sample, metric func(Sample) float64) float64 {
	return 2 * math.Abs(metric(a)-metric(b)) / (metric(a) + metric(b))
}

// Median of numbers. Of none it is no number, so that nobody takes it for a good one.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// MinMax is the smallest and the largest of numbers.
func MinMax(all []float64) (low, high float64) {
	if len(all) == 0 {
		return 0, 0
	}
	return slices.Min(all), slices.Max(all)
}

// HeapSlope fits a line through the heap samples: KiB per application, and how well it fits.
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
		return nil, fmt.Errorf("%w; make bench PROFILE=quick makes one", err)
	}
	var r Run
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return &r, nil
}
