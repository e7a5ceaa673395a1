package bench

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// measureScale measures P8, P5, P6 and P7 with one growing population, so that the largest one is created only once.
func measureScale(t *testing.T, r *results.Run, sizes []int, rest time.Duration) {
	p := newPopulation(t)
	figures, heapSamples := p.measureMemory(sizes)
	figures = append(figures, p.measureIdle(rest)...)
	figures = append(figures, p.measureRestart()...)
	r.Figures = append(r.Figures, append(figures, p.measureEventStorm()...)...)
	r.Heap, r.Growth = heapSamples, p.growthSteps
}

func TestNamespaceHoldsAtMost1000AppServices(t *testing.T) {
	counts := map[string]int{}
	for i := range 10_000 {
		counts[namespaceFor(i)]++
	}
	for name, n := range counts {
		if n > 1000 {
			t.Errorf("got %d AppServices in %s, want at most 1000", n, name)
		}
	}
}
