package database

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	. "github.com/onsi/gomega"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	neighbors = 50
	// maxHostileMemory is the accepted growth of the operator's peak memory, in MiB.
	maxHostileMemory = 64
)

// hostileModes are the attacks, and what the application must report.
var hostileModes = map[string]string{
	"ec-key":     "DatabaseProtocolViolation: .*it asked for authentication method \"sha256_password\"",
	"rsa-key":    "DatabaseProtocolViolation: .*it asked for authentication method \"sha256_password\"",
	"flood":      "DatabaseProtocolViolation: .*it sent more than 256 KiB in one response",
	"error-text": "DatabaseAccessDenied: .*ALL GREEN",
}

// TestHostileDatabasesDoNotHarmOthers edits healthy applications, with and without applications whose databases attack
// the operator. A crash of the operator fails every test of the harness. Only the long run measures enough edits to
// compare their durations.
func TestHostileDatabasesDoNotHarmOthers(t *testing.T) {
	s := harness.New(t, allPodsRun, operator.Options{NoRace: true})
	w := s.NewWorld(t)
	createHealthyApps(w, neighbors)
	long := os.Getenv("HOLDFAST_LONG") != ""
	edits := neighbors
	if long {
		edits = editsPerRound
	}
	baseline := measureEdits(w, 1, neighbors, edits)
	memory := peakMemory(w)
	for mode := range hostileModes {
		w.Expect(w.Create(w.Context(), newHostileStack(w, mode))).To(Succeed())
	}
	for mode, want := range hostileModes {
		ready := func() string { return w.Condition(newHostileStack(w, mode), "Ready") }
		w.Eventually(ready, "120s").Should(MatchRegexp(want), mode)
		if text := ready(); strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: the status contains control characters of the server: %q", mode, text)
		}
	}
	withHostile := slices.Concat(measureEdits(w, 2, neighbors, edits), measureEdits(w, 3, neighbors, edits))
	grown := peakMemory(w) - memory
	for mode := range hostileModes {
		w.Expect(w.Delete(w.Context(), newHostileStack(w, mode))).To(Succeed())
	}
	for mode := range hostileModes {
		w.Eventually(func() bool { return harness.Find(w, newHostileStack(w, mode)) == nil }, "90s").Should(BeTrue())
	}
	baseline = append(baseline, measureEdits(w, 4, neighbors, edits)...)
	a, b := p99(baseline), p99(withHostile)
	t.Logf("p99 of an edit: %s without and %s with %d hostile databases; %d edits each; the peak memory grew by %d MiB", a, b, len(hostileModes), len(baseline), grown)
	if long && float64(b) > maxSlowdown*float64(a) {
		t.Errorf("edits of healthy applications are %.1f times as slow, want at most %.1f", float64(b)/float64(a), maxSlowdown)
	}
	if grown > maxHostileMemory {
		t.Errorf("the peak memory of the operator grew by %d MiB, want at most %d", grown, maxHostileMemory)
	}
}

func newHostileStack(w *harness.World, mode string) *appsapi.AppStack {
	return newStack(w.NS, mode, "shop/mariadb:hostile-"+mode, noChange)
}

// peakMemory returns the peak memory of the operator in MiB.
func peakMemory(w *harness.World) int {
	w.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.Operator.Pid()))
	w.Expect(err).NotTo(HaveOccurred())
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(peak)[0])
	w.Expect(err).NotTo(HaveOccurred())
	return kib >> 10
}
