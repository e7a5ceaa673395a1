package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// sample is one measurement of one contender.
type sample struct {
	WallSeconds float64 `json:"wallSeconds"`
	AllSeconds  float64 `json:"allSeconds"` // until the controller-manager has done its part
	CPUSeconds  usage   `json:"cpuSeconds"`

	// Of the operator only.
	LatencyP50  float64 `json:"latencyP50Seconds,omitempty"` // of one AppService, POST to Ready
	LatencyP99  float64 `json:"latencyP99Seconds,omitempty"`
	PeakRSSMB   float64 `json:"peakRSSMB,omitempty"`
	RSSMB       float64 `json:"rssMB,omitempty"`
	HeapEmptyMB float64 `json:"heapEmptyMB,omitempty"` // live after a start without AppServices
	HeapFullMB  float64 `json:"heapFullMB,omitempty"`  // and with all of them
}

// requests is how often a contender asked for one kind of thing, per AppService.
type requests struct {
	Contender string  `json:"contender"`
	Resource  string  `json:"resource"`
	Verb      string  `json:"verb"`
	Accepted  int     `json:"accepted"`
	Refused   int     `json:"refused"`
	PerApp    float64 `json:"perApp"`
}

type report struct {
	Machine  map[string]string `json:"machine"`
	Apps     int               `json:"apps"`
	Counted  int               `json:"countedApps"`
	Requests []requests        `json:"requests"`
	Bare     []sample          `json:"bare"`
	Ours     []sample          `json:"ours"`
}

func (r *report) count(contender string, events audit.Events) {
	r.Counted = *counted
	for _, row := range events.Count() {
		r.Requests = append(r.Requests, requests{
			Contender: contender, Resource: row.Resource, Verb: row.Verb, Accepted: row.Accepted, Refused: row.Refused,
			PerApp: float64(row.Accepted+row.Refused) / float64(*counted),
		})
	}
}

// publish prints the report and writes it to out/bench-smoke.json.
func (r *report) publish(t testing.TB) {
	fmt.Print("\n", r)
	root, err := operator.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "out", "bench-smoke.json"), append(content, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// median of a number over all rounds.
func median(samples []sample, of func(sample) float64) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

func wall(s sample) float64 { return s.WallSeconds }

func allCPU(s sample) float64 { return s.CPUSeconds.total() }

func (r *report) String() string {
	var text strings.Builder
	m := r.Machine
	fmt.Fprintf(&text, "%d AppServices without pods, %d rounds, the middle of each number\n", r.Apps, len(r.Ours))
	fmt.Fprintf(&text, "kernel %s, %s x %s, %s; etcd without fsync; controller-manager %s\n\n",
		m["kernel"], m["cores"], m["cpu"], m["go"], strings.Join(controllerManagerArgs, " "))
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	apps := float64(r.Apps)
	line := func(name string, of func(sample) float64, format string) {
		fmt.Fprintf(w, "%s\t"+format+"\t"+format+"\n", name, median(r.Bare, of), median(r.Ours, of))
	}
	fmt.Fprintln(w, "\tBARE\tOURS")
	line("wall, s", wall, "%.2f")
	line("wall until the Deployments are done, s", func(s sample) float64 { return s.AllSeconds }, "%.2f")
	line("AppServices per s", func(s sample) float64 { return apps / s.WallSeconds }, "%.0f")
	for _, process := range []string{"apiserver", "etcd", "controller-manager", "driver"} {
		line("CPU of "+process+", s", func(s sample) float64 { return s.CPUSeconds[process] }, "%.2f")
	}
	line("CPU of all of these and the operator, s", allCPU, "%.2f")
	line("CPU of others meanwhile, s", func(s sample) float64 { return s.CPUSeconds.disturbance() }, "%.2f")
	alone := func(name string, of func(sample) float64, format string) {
		fmt.Fprintf(w, "%s\t\t"+format+"\n", name, median(r.Ours, of))
	}
	alone("CPU of operator, s", func(s sample) float64 { return s.CPUSeconds["operator"] }, "%.2f")
	alone("CPU of operator per AppService, ms", func(s sample) float64 { return 1000 * s.CPUSeconds["operator"] / apps }, "%.2f")
	alone("POST to Ready p50, s", func(s sample) float64 { return s.LatencyP50 }, "%.2f")
	alone("POST to Ready p99, s", func(s sample) float64 { return s.LatencyP99 }, "%.2f")
	alone("peak RSS, MB", func(s sample) float64 { return s.PeakRSSMB }, "%.0f")
	alone("RSS at the end, MB", func(s sample) float64 { return s.RSSMB }, "%.0f")
	alone("live heap after a restart, none, MB", func(s sample) float64 { return s.HeapEmptyMB }, "%.0f")
	alone("live heap after a restart, all, MB", func(s sample) float64 { return s.HeapFullMB }, "%.0f")
	alone("live heap per AppService, KiB (+-1 MB in all)", func(s sample) float64 { return 1024 * (s.HeapFullMB - s.HeapEmptyMB) / apps }, "%.1f")
	_ = w.Flush() // to memory
	fmt.Fprintf(&text, "\nours / bare: wall %.2f, CPU %.2f\n", median(r.Ours, wall)/median(r.Bare, wall), median(r.Ours, allCPU)/median(r.Bare, allCPU))
	for i, ours := range r.Ours {
		bare := r.Bare[i]
		fmt.Fprintf(&text, "round %d: wall %.2f s / %.2f s = %.2f, CPU %.2f s / %.2f s = %.2f\n", i+1,
			ours.WallSeconds, bare.WallSeconds, ours.WallSeconds/bare.WallSeconds, allCPU(ours), allCPU(bare), allCPU(ours)/allCPU(bare))
	}
	fmt.Fprintf(&text, "\nrequests, counted with %d AppServices each\n", r.Counted)
	w = tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CONTENDER\tRESOURCE\tVERB\tACCEPTED\tREFUSED\tPER APP")
	for _, q := range r.Requests {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.2f\n", q.Contender, q.Resource, q.Verb, q.Accepted, q.Refused, q.PerApp)
	}
	_ = w.Flush()
	return text.String()
}
