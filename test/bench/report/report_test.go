package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

func TestReport(t *testing.T) {
	dir := t.TempDir()
	sample := func(wall float64) []results.Sample {
		return []results.Sample{{WallSeconds: wall, Calls: 600, Revisions: 900, CPUSeconds: map[string]float64{"contender": 0.3, "apiserver": 1, "etcd": 0.2, "controller-manager": 0.1}, PeakRSSMB: 90}}
	}
	r := &results.Run{
		Profile: "full", Machine: map[string]string{"kernel": "6.1", "cores": "2", "cpu": "a <fast> one", "go": "go1.26", "etcd": "without fsync", "commit": "abc"}, Apps: 100,
		Parts:      []results.Part{{Name: "P1", StartedAt: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Minutes: 7}, {Name: "P1", StartedAt: time.Date(2026, 1, 3, 3, 4, 0, 0, time.UTC), Minutes: 5, Complete: true}},
		Contenders: []results.Contender{{ID: results.BareContender, Name: "bare"}, {ID: "C1", Name: "Holdfast"}, {ID: "C4", Name: "<slow>"}},
		Rounds: []results.Round{
			{Order: []string{"C0s", "C1", "C4", "C0s"}, Samples: map[string][]results.Sample{results.BareContender: append(sample(2), sample(2)...), "C1": sample(2.2), "C4": sample(200)}},
			{Order: []string{"C0s"}, Discarded: true, Spread: 0.5, NormalizedSpread: 0.2, Samples: map[string][]results.Sample{results.BareContender: append(sample(1), sample(9)...)}},
		},
		Requests: []results.Requests{{Contender: "C1", Resource: "services", Verb: "patch", PerApp: 1}},
		Heap:     []results.HeapSample{{Apps: 1000, LiveMB: 20}, {Apps: 2000, LiveMB: 28}},
		Growth: []results.GrowthStep{
			{From: 0, To: 1000, Seconds: 50, CPUMillis: map[string]float64{"apiserver": 30, "contender": 4}, RSSMB: map[string]float64{"apiserver": 600, "controller-manager": 100}, EtcdMB: 20},
			{From: 1000, To: 2000, Seconds: 60, CPUMillis: map[string]float64{"apiserver": 31, "etcd": 5, "controller-manager": 9, "contender": 4}, RSSMB: map[string]float64{"apiserver": 800, "controller-manager": 150}, EtcdMB: 35},
		},
		Figures: []results.Figure{
			results.Figure{Row: "P1", Name: "wall", Value: 1.1}.WithBounds(1.25, 1.1), {Row: "P4", Name: "told"}, results.Figure{Row: "P6", Name: "synced", Value: 7, Unit: "s"}.WithGoal(5),
			results.Figure{Row: "P1", Name: "wall at equal pace, Holdfast / C5 fluxssa", Value: 1.25}.WithBounds(1, 1), {Row: "P14", Name: "CPU of the API server, event", Value: 0.5, Unit: "ms"},
			results.Figure{Row: "P9", Name: "something new", Value: 7, Unit: "ms"}.WithBounds(5, 5),
		},
	}
	from, page, scalePath := filepath.Join(dir, "bench.json"), filepath.Join(dir, "bench.md"), filepath.Join(dir, "scale.md")
	if err := r.Write(from); err != nil {
		t.Fatal(err)
	}
	if err := run(from, page, scalePath, dir); err != nil {
		t.Fatal(err)
	}
	checkContains(t, page, "Measured at commit abc: P1 from 2026-01-02 03:04, 7 min, aborted; P1 from 2026-01-03 03:04, 5 min.", "| P1 | wall | 1.1 | 1.25 | 1.1 | goal |", "| C1 Holdfast | 2.20 s | 1.10 (1.10 to 1.10) | 6.0 | 9.0 | 3.0 ms, 10.0 ms | 90 MiB |",
		"| C1 | patch services | 1.00 | 0 |", "| 1000 | 2000 | 31.0 | 5.0 | 9.0 | 4.0 | 0.0 | 60 |",
		"**P1 wall at equal pace, Holdfast / C5 fluxssa**: 1.25, limit 1.\nIn the additional time that Holdfast takes, the cores compute 8.8 ms", "and no events\n(0.5 ms each", "two ((not measured) for the second)",
		"**P9 something new**: 7 ms, limit 5 ms.\nCause unknown.",
		"| 1 | C0s C1 C4 C0s | 0.0 % | 0.0 % | yes | 1.10 | 1.10 | 1.10 | 1.10 |", "| 2 | C0s | 50.0 % | 20.0 % | discarded |  |  |  |  |", "| P6 | synced | 7 s |  | 5 s | short |", "![wall time of all contenders](./"+wallChartFile+")")
	// 200 MiB per thousand on top of 400, and 1 ms more of 29.5 per thousand
	checkContains(t, scalePath, "| API server, resident memory | 200 MiB | 1.00 | 800 MiB | *20 GiB* | *196 GiB* |",
		"| CPU of the API server for one more application | 1 ms | 1.00 | 31 ms | *130 ms* | *1 s* |",
		"| CPU of the operator for one more application | not significant | 0.00 | 4 ms | *unknown* | *unknown* |",
		"| 30,000 | the API server needs twice the CPU", "| 330,000 | 64 GiB of memory for the API server", "| API server, resident memory | *1.4 GiB, calculated* |")
	for name, want := range map[string]string{wallChartFile: "100.00 x", heapChartFile: "8.2 KiB per application"} {
		checkSVG(t, filepath.Join(dir, name), want)
	}
}

// Values without a significant trend are not extrapolated; within the measured range, the range of values is reported.
func TestNoisyTrendIsNotExtrapolated(t *testing.T) {
	s := newTrend(serverCPU, "ms", []results.Point{{X: 1000, Y: 7}, {X: 2000, Y: 12}, {X: 3000, Y: 6}, {X: 4000, Y: 9.5}})
	if got := s.PerThousand() + "; " + s.Within(3000) + "; " + s.Within(3500) + "; " + s.Calculated(100_000); got != "not significant; 6 ms, measured; 6 ms to 12 ms, measured at all sizes; unknown" {
		t.Errorf("got %s, with an R² of %.2f", got, s.R2)
	}
}

// Cores that are slow for a while must not look like a trend.
func TestTrendsIgnoreCoreSpeed(t *testing.T) {
	r := &results.Run{}
	for i, slowdown := range []float64{1, 2, 1} {
		r.Growth = append(r.Growth, results.GrowthStep{From: 1000 * i, To: 1000 * (i + 1), CPUMillis: map[string]float64{"driver": slowdown, "apiserver": float64(10+i) * slowdown, "contender": 4 * slowdown}})
	}
	all := trends(r)
	if server := all[5]; server.PerThousand() != "1 ms" || server.R2 < 0.999 {
		t.Errorf("another thousand adds %s, R² %.2f", server.PerThousand(), server.R2)
	}
	if operator := all[6]; !operator.isNoise() || operator.Last() != "4 ms" || len(scaleLimits(all)) != 3 {
		t.Errorf("the operator, which does not grow: %s, and at last %s", operator.PerThousand(), operator.Last())
	}
}

// Every reason renders, even if few figures were measured.
func TestEveryMissedFigureHasAReason(t *testing.T) {
	rows := []string{"P1 wall, Holdfast / C0s", "P1 wall, Holdfast / C2 sample", "P1 wall, Holdfast / C3 kubebuilder", "P1 wall, Holdfast / C5 fluxssa",
		"P1 wall at equal pace, Holdfast / C2 sample", "P1 wall at equal pace, Holdfast / C3 kubebuilder", "P1 wall at equal pace, Holdfast / C5 fluxssa", "P3 ours - bare with a watch, p99 at 80 % of it",
		"CPU of the operator per application", "P6 edit p99 in the backlog", "P6 edit p99 after ready",
		"P10 db ready to identity created, p50", "P10 db ready to identity created, p99", "P10 identity ready to front created, p50", "P10 identity ready to front created, p99"}
	r := &results.Run{Apps: 1}
	for _, name := range rows {
		row, name, _ := strings.Cut(name, " ")
		r.Figures = append(r.Figures, results.Figure{Row: row, Name: name, Value: 2}.WithBounds(1, 1))
	}
	var out strings.Builder
	if err := writeMissed(func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }, r); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "**: 2, limit 1.\n"); n != len(rows) {
		t.Errorf("%d figures are explained, want %d", n, len(rows))
	}
	if strings.Contains(out.String(), "Cause unknown") || strings.Contains(out.String(), "<no value>") || strings.Contains(out.String(), "NaN") {
		t.Error(out.String())
	}
}

// A missing measurement is not 0.
func TestDifferenceOfUnmeasuredFigures(t *testing.T) {
	r := &results.Run{Figures: []results.Figure{{Row: "P14", Name: "apply", Value: 4, Unit: "ms"}, {Row: "P14", Name: "create", Value: 2.5, Unit: "ms"}}}
	for other, want := range map[string]string{"create": "1.5 ms", "delete": notMeasured} {
		if got := difference(r, "P14", "apply", other); got != want {
			t.Errorf("apply is %s more than %s, want %s", got, other, want)
		}
	}
}

// A contender that takes 2 s instead of 1.6 s for 100 applications uses two cores for 0.4 s more.
func TestExtraCPUPerApp(t *testing.T) {
	r := &results.Run{
		Apps: 100, Machine: map[string]string{"cores": "2"}, Figures: []results.Figure{{Row: "P1", Name: "wall, Holdfast / C2 sample", Value: 1.25}},
		Rounds: []results.Round{{Samples: map[string][]results.Sample{"C1": {{WallSeconds: 2}}}}},
	}
	if got := extraCPUPerApp(r, "wall, Holdfast / C2 sample"); got != "8.0 ms" {
		t.Errorf("%s longer, want 8.0 ms", got)
	}
	if got := extraCPUPerApp(r, "wall, Holdfast / C3 kubebuilder"); got != notMeasured {
		t.Errorf("%s longer than an unmeasured contender", got)
	}
}

// The report distinguishes disturbed and aborted parts. Neither counts.
func TestSessionsReportInvalidParts(t *testing.T) {
	var out string
	writeSessions(func(format string, args ...any) { out = fmt.Sprintf(format, args...) }, &results.Run{
		Machine: map[string]string{"commit": "abc"}, Parts: []results.Part{{Name: "P13", Disturbed: true}, {Name: "P9"}, {Name: "P13", Complete: true}},
	})
	for _, want := range []string{"0 min, disturbed by other processes: discarded; P9", "0 min, aborted; P13", "0 min."} {
		if !strings.Contains(out, want) {
			t.Errorf("got %q, want it to contain %q", out, want)
		}
	}
}

// checkContains fails if a page lacks one of the texts.
func checkContains(t *testing.T, page string, wants ...string) {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(string(content), want) {
			t.Errorf("no %q in\n%s", want, content)
		}
	}
}

func checkSVG(t *testing.T, file, want string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(content))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, content)
		}
	}
	if !strings.Contains(string(content), want) {
		t.Errorf("no %q in %s", want, content)
	}
}
