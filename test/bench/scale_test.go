package bench

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// measureScale takes P8, P5, P6 and P7 of one population that grows, so that the largest is
// made only once.
func measureScale(t *testing.T, r *results.Run, sizes []int, rest time.Duration) {
	p := newPopulation(t)
	figures, weighed := p.measureMemory(sizes)
	figures = append(figures, p.measureIdle(rest)...)
	figures = append(figures, p.measureRestart()...)
	r.Figures = append(r.Figures, append(figures, p.measureStorm()...)...)
	r.Heap, r.Growth = weighed, p.growth
}

func TestNamespacesAreNotTooFull(t *testing.T) {
	in := map[string]int{}
	for i := range 10_000 {
		in[namespace(i)]++
	}
	for name, n := range in {
		if n > 1000 {
			t.Errorf("%d AppServices in %s, want at most 1000", n, name)
		}
	}
}
