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

// guard watches over the data in everything that is played, whatever it is played for.
var guard = &dataGuard{claims: map[types.UID]bool{}, start: time.Now()}

type dataGuard struct {
	mu         sync.Mutex
	start      time.Time
	steps      int                // that were looked at
	claims     map[types.UID]bool // all that there were: whether they are gone
	violations []string
}

// check finds what must not happen to data, and counts what it looked at.
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

// writeReport writes down what was seen so far.
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
	report.Write(t, "guard", report.Row{Test: "31 data is kept", Generated: g.steps, Run: g.steps, Failed: len(g.violations),
		Seconds: time.Since(g.start).Seconds(), Failures: g.violations,
		Measured: fmt.Sprintf("in %d steps of all scenarios %d claims; %d of them were deleted; %d times something happened that must not", g.steps, len(g.claims), deleted, len(g.violations))})
}
