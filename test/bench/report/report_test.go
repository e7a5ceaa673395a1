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
		Parts:      []results.Part{{Name: "P1", Begun: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Minutes: 7}, {Name: "P1", Begun: time.Date(2026, 1, 3, 3, 4, 0, 0, time.UTC), Minutes: 5, Whole: true}},
		Contenders: []results.Contender{{ID: results.Bare, Name: "bare"}, {ID: "C1", Name: "Holdfast"}, {ID: "C4", Name: "<slow>"}},
		Rounds: []results.Round{
			{Order: []string{"C0s", "C1", "C4", "C0s"}, Samples: map[string][]results.Sample{results.Bare: append(sample(2), sample(2)...), "C1": sample(2.2), "C4": sample(200)}},
			{Order: []string{"C0s"}, Thrown: true, Spread: 0.5, SpreadAtPace: 0.2, Samples: map[string][]results.Sample{results.Bare: append(sample(1), sample(9)...)}},
		},
		Requests: []results.Requests{{Contender: "C1", Resource: "services", Verb: "patch", PerApp: 1}},
		Heap:     []results.HeapSample{{Apps: 1000, LiveMB: 20}, {Apps: 2000, LiveMB: 28}},
		Growth: []results.Growth{
			{From: 0, To: 1000, Seconds: 50, CPUMillis: map[string]float64{"apiserver": 30, "contender": 4}, RSSMB: map[string]float64{"apiserver": 600, "controller-manager": 100}, EtcdMB: 20},
			{From: 1000, To: 2000, Seconds: 60, CPUMillis: map[string]float64{"apiserver": 31, "etcd": 5, "controller-manager": 9, "contender": 4}, RSSMB: map[string]float64{"apiserver": 800, "controller-manager": 150}, EtcdMB: 35},
		},
		Figures: []results.Figure{
			results.Figure{Row: "P1", Name: "wall", Got: 1.1}.AtMost(1.25, 1.1), {Row: "P4", Name: "told"}, results.Figure{Row: "P6", Name: "synced", Got: 7, Unit: "s"}.Towards(5),
			results.Figure{Row: "P1", Name: "wall at equal pace, Holdfast / C5 fluxssa", Got: 1.25}.AtMost(1, 1), {Row: "P14", Name: "CPU of the API server, event", Got: 0.5, Unit: "ms"},
			results.Figure{Row: "P9", Name: "something new", Got: 7, Unit: "ms"}.AtMost(5, 5),
		},
	}
	from, page, far := filepath.Join(dir, "bench.json"), filepath.Join(dir, "bench.md"), filepath.Join(dir, "scale.md")
	if err := r.Write(from); err != nil {
		t.Fatal(err)
	}
	if err := run(from, page, far, dir); err != nil {
		t.Fatal(err)
	}
	says(t, page, "Measured at commit abc: P1 from 2026-01-02 03:04, 7 min, broken off; P1 from 2026-01-03 03:04, 5 min.", "| P1 | wall | 1.1 | 1.25 | 1.1 | goal |", "| C1 Holdfast | 2.20 s | 1.10 (1.10 to 1.10) | 6.0 | 9.0 | 3.0 ms, 10.0 ms | 90 MiB |",
		"| C1 | patch services | 1.00 | 0 |", "| 1000 | 2000 | 31.0 | 5.0 | 9.0 | 4.0 | 0.0 | 60 |",
		"**P1 wall at equal pace, Holdfast / C5 fluxssa**: 1.25, where at most 1 was wanted.\nIn the time that Holdfast takes longer the cores compute 8.8 ms", "and no events\n(0.5 ms each", "two ((not measured) for the second)",
		"**P9 something new**: 7 ms, where at most 5 ms was wanted.\nNobody has found out why.",
		"| 1 | C0s C1 C4 C0s | 0.0 % | 0.0 % | yes | 1.10 | 1.10 | 1.10 | 1.10 |", "| 2 | C0s | 50.0 % | 20.0 % | thrown away |  |  |  |  |", "| P6 | synced | 7 s |  | 5 s | short |", "![wall time of all contenders](./"+wallPicture+")")
	// 200 MiB per thousand on top of 400, and 1 ms more of 29.5 per thousand
	says(t, far, "| API server, resident memory | 200 MiB | 1.00 | 800 MiB | *20 GiB* | *196 GiB* |",
		"| CPU of the API server for one more application | 1 ms | 1.00 | 31 ms | *130 ms* | *1 s* |",
		"| CPU of the operator for one more application | not told from noise | 0.00 | 4 ms | *unknown* | *unknown* |",
		"| 30,000 | the API server needs twice the CPU", "| 330,000 | 64 GiB of memory for the API server", "| API server, resident memory | *1.4 GiB, calculated* |")
	for name, want := range map[string]string{wallPicture: "100.00 x", heapPicture: "8.2 KiB per application"} {
		wellFormed(t, filepath.Join(dir, name), want)
	}
}

// What scatters is not drawn on: beyond what was measured nobody knows, and within it that is what is said.
func TestScattered(t *testing.T) {
	s := newSlope(serverCPU, "ms", []results.Point{{X: 1000, Y: 7}, {X: 2000, Y: 12}, {X: 3000, Y: 6}, {X: 4000, Y: 9.5}})
	if got := s.PerThousand() + "; " + s.Within(3000) + "; " + s.Within(3500) + "; " + s.Calculated(100_000); got != "not told from noise; 6 ms, measured; 6 ms to 12 ms, measured anywhere; unknown" {
		t.Errorf("got %s, with an R² of %.2f", got, s.R2)
	}
}

// Cores that compute at half their pace for a while look like a line that is not there.
func TestEqualPace(t *testing.T) {
	r := &results.Run{}
	for i, slower := range []float64{1, 2, 1} {
		r.Growth = append(r.Growth, results.Growth{From: 1000 * i, To: 1000 * (i + 1), CPUMillis: map[string]float64{"driver": slower, "apiserver": float64(10+i) * slower, "contender": 4 * slower}})
	}
	all := slopes(r)
	if server := all[5]; server.PerThousand() != "1 ms" || server.R2 < 0.999 {
		t.Errorf("another thousand adds %s, R² %.2f", server.PerThousand(), server.R2)
	}
	if operator := all[6]; !operator.scatters() || operator.Last() != "4 ms" || len(walls(all)) != 3 {
		t.Errorf("the operator, which does not grow: %s, and at last %s", operator.PerThousand(), operator.Last())
	}
}

// Every reason can be said, also when next to nothing was measured.
func TestMissed(t *testing.T) {
	rows := []string{"P1 wall, Holdfast / C0s", "P1 wall, Holdfast / C2 sample", "P1 wall, Holdfast / C3 kubebuilder", "P1 wall, Holdfast / C5 fluxssa",
		"P1 wall at equal pace, Holdfast / C2 sample", "P1 wall at equal pace, Holdfast / C3 kubebuilder", "P1 wall at equal pace, Holdfast / C5 fluxssa", "P3 ours - bare with a watch, p99 at 80 % of it",
		"CPU of the operator per application", "P6 edit p99 in the backlog", "P6 edit p99 after ready",
		"P10 db ready to identity created, p50", "P10 db ready to identity created, p99", "P10 identity ready to front created, p50", "P10 identity ready to front created, p99"}
	r := &results.Run{Apps: 1}
	for _, name := range rows {
		row, name, _ := strings.Cut(name, " ")
		r.Figures = append(r.Figures, results.Figure{Row: row, Name: name, Got: 2}.AtMost(1, 1))
	}
	var said strings.Builder
	if err := missed(func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }, r); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(said.String(), "**: 2, where at most 1 was wanted.\n"); n != len(rows) {
		t.Errorf("%d figures are explained, want %d", n, len(rows))
	}
	if strings.Contains(said.String(), "Nobody has found out") || strings.Contains(said.String(), "<no value>") || strings.Contains(said.String(), "NaN") {
		t.Error(said.String())
	}
}

// What was not measured is no 0.
func TestDifference(t *testing.T) {
	r := &results.Run{Figures: []results.Figure{{Row: "P14", Name: "apply", Got: 4, Unit: "ms"}, {Row: "P14", Name: "create", Got: 2.5, Unit: "ms"}}}
	for less, want := range map[string]string{"create": "1.5 ms", "delete": unknown} {
		if got := difference(r, "P14", "apply", less); got != want {
			t.Errorf("apply is %s more than %s, want %s", got, less, want)
		}
	}
}

// Who takes 2 s instead of 1.6 s for 100 applications had 0.4 s of two cores more.
func TestLonger(t *testing.T) {
	r := &results.Run{
		Apps: 100, Machine: map[string]string{"cores": "2"}, Figures: []results.Figure{{Row: "P1", Name: "wall, Holdfast / C2 sample", Got: 1.25}},
		Rounds: []results.Round{{Samples: map[string][]results.Sample{"C1": {{WallSeconds: 2}}}}},
	}
	if got := longerPerApp(r, "wall, Holdfast / C2 sample"); got != "8.0 ms" {
		t.Errorf("%s longer, want 8.0 ms", got)
	}
	if got := longerPerApp(r, "wall, Holdfast / C3 kubebuilder"); got != unknown {
		t.Errorf("%s longer than who was not measured", got)
	}
}

// What was disturbed was not broken off, and neither counts.
func TestSittings(t *testing.T) {
	var said string
	sittings(func(format string, args ...any) { said = fmt.Sprintf(format, args...) }, &results.Run{
		Machine: map[string]string{"commit": "abc"}, Parts: []results.Part{{Name: "P13", Disturbed: true}, {Name: "P9"}, {Name: "P13", Whole: true}},
	})
	for _, want := range []string{"0 min, disturbed by others: does not count; P9", "0 min, broken off; P13", "0 min."} {
		if !strings.Contains(said, want) {
			t.Errorf("it says %q, and not %q", said, want)
		}
	}
}

// says looks for text in a page.
func says(t *testing.T, page string, wants ...string) {
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

func wellFormed(t *testing.T, file, want string) {
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
