package faults

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/test/faults/oracle"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// guard checks the data in every step of every scenario.
var guard = &dataGuard{claims: map[types.UID]bool{}, start: time.Now()}

type dataGuard struct {
	mu         sync.Mutex
	start      time.Time
	steps      int                // number of checked steps
	claims     map[types.UID]bool // all claims; true if deleted
	violations []string
}

// check returns violations of data safety and counts steps and claims.
func (g *dataGuard) check(timeline oracle.Timeline) []string {
	violations := oracle.DataViolations(timeline)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps++
	for _, e := range timeline {
		if e.Object.GetKind() == "PersistentVolumeClaim" {
			g.claims[e.UID] = g.claims[e.UID] || e.Type == watch.Deleted
		}
	}
	g.violations = append(g.violations, violations...)
	return violations
}

// writeReport writes the current results.
func (g *dataGuard) writeReport(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	deleted := 0
	for _, gone := range g.claims {
		if gone {
			deleted++
		}
	}
	report.Write(t, "guard", report.Row{Test: "31 data retention", Generated: g.steps, Run: g.steps, Failed: len(g.violations),
		Seconds: time.Since(g.start).Seconds(), Failures: g.violations,
		Measured: fmt.Sprintf("%d steps of all scenarios with %d claims, %d of them deleted; %d violations", g.steps, len(g.claims), deleted, len(g.violations))})
}
