package results

import (
	"math"
	"slices"
	"testing"
)

func TestRatiosCompareRoundMeans(t *testing.T) {
	sample := func(seconds float64) []Sample { return []Sample{{WallSeconds: seconds}} }
	twice := func(a, b float64) []Sample { return append(sample(a), sample(b)...) }
	r := &Run{Rounds: []Round{
		{Samples: map[string][]Sample{BareContender: twice(1, 3), "C1": sample(3)}},
		{Samples: map[string][]Sample{BareContender: twice(4, 4), "C1": twice(3, 5)}},
		{Samples: map[string][]Sample{BareContender: twice(1, 9), "C1": sample(100)}, Discarded: true},
	}}
	if got := r.Ratios("C1", BareContender, WallTime); !slices.Equal(got, []float64{1.5, 1}) {
		t.Errorf("got %v, want one ratio of means per valid round", got)
	}
	r.Rounds[0].Spread = 1 // 1 and 3
	if got := r.WallRatios("C1", BareContender); !slices.Equal(got, []float64{1}) {
		t.Errorf("got %v, want only the round with equal bare runs", got)
	}
	r.Rounds[1].Spread = 0.2
	if got := r.WallRatios("C1", BareContender); len(got) != 2 {
		t.Errorf("got %v, want all rounds if none has equal bare runs", got)
	}
	if got := r.Ratios("C9", BareContender, WallTime); len(got) != 0 {
		t.Errorf("got %v, want no ratio of a contender without samples", got)
	}
}

// A round in which half a core of one of the two was stolen is ignored.
func TestWallRatiosSkipRoundsWithStolenCPU(t *testing.T) {
	run := func(wall, stolen float64) []Sample {
		return []Sample{{WallSeconds: wall, CPUSeconds: map[string]float64{"stolen": stolen}}}
	}
	r := &Run{Rounds: []Round{
		{Samples: map[string][]Sample{"C1": run(10, 0), "C4": run(40, 20)}},
		{Samples: map[string][]Sample{"C1": run(10, 1), "C4": run(20, 0)}},
	}}
	if got := r.WallRatios("C1", "C4"); !slices.Equal(got, []float64{0.5}) {
		t.Errorf("got %v, want only the second round", got)
	}
}

// A temporarily slower machine affects all processes equally.
func TestNormalizedWallIgnoresMachineSpeed(t *testing.T) {
	sample := func(wall, etcd, manager float64) Sample {
		return Sample{WallSeconds: wall, CPUSeconds: map[string]float64{"etcd": etcd, "controller-manager": manager, "apiserver": 99}}
	}
	fast, slow := sample(20, 4, 4), sample(40, 8, 8)
	if wall, normalized := RelativeDifference(fast, slow, WallTime), RelativeDifference(fast, slow, NormalizedWall); math.Abs(wall-2.0/3) > 1e-9 || normalized != 0 {
		t.Errorf("got spread %v of wall times and %v of normalized times", wall, normalized)
	}
	r := &Run{Rounds: []Round{{Samples: map[string][]Sample{BareContender: {fast, fast}, "C1": {sample(44, 8, 8), sample(22, 4, 4)}}}}}
	if got := r.Ratios("C1", BareContender, NormalizedWall); len(got) != 1 || math.Abs(got[0]-1.1) > 1e-9 {
		t.Errorf("got %v, want 1.1", got)
	}
}

func TestMedian(t *testing.T) {
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of no values: got %v, want NaN", got)
	}
	for want, all := range map[float64][]float64{2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := Median(all); got != want {
			t.Errorf("median of %v: got %v, want %v", all, got, want)
		}
	}
}

func TestHeapSlope(t *testing.T) {
	line := []HeapSample{{1000, 10}, {2000, 18}, {5000, 42}}
	if kib, r2 := HeapSlope(line); math.Abs(kib-8.192) > 1e-9 || math.Abs(r2-1) > 1e-9 {
		t.Errorf("got slope %v and R² %v, want 8.192 KiB and 1", kib, r2)
	}
	if _, r2 := HeapSlope([]HeapSample{{1000, 10}, {2000, 30}, {3000, 10}}); r2 > 0.1 {
		t.Errorf("got R² %v, want less for points that are not on a line", r2)
	}
}

func TestVerdict(t *testing.T) {
	for got, want := range map[float64]string{1: "goal", 1.5: "must", 3: Missed} {
		if v := (Figure{Value: got}).WithBounds(2, 1).Verdict(); v != want {
			t.Errorf("verdict of %v: got %q, want %q", got, v, want)
		}
	}
	for got, want := range map[float64]string{1: "goal", 3: Short} {
		if v := (Figure{Value: got}).WithGoal(2).Verdict(); v != want {
			t.Errorf("verdict of %v with goal 2: got %q, want %q", got, v, want)
		}
	}
	if v := (Figure{Value: 1}).Verdict(); v != "" {
		t.Errorf("verdict without limits: got %q, want none", v)
	}
}

// A small mean can hide seconds without CPU.
func TestNeedsRepeatAfterMeanOrPeakDisturbance(t *testing.T) {
	for _, c := range []struct {
		others Figure
		want   bool
	}{
		{Figure{Value: 0.1, Peak: 0.3}, false},
		{Figure{Value: 0.3}, true},
		{Figure{Value: 0.1, Peak: 0.9}, true},
	} {
		f := Figure{Note: "n=9"}.DisturbedBy(Figure{}, c.others)
		if got := NeedsRepeat([]Figure{{}, f}); got != c.want {
			t.Errorf("%+v: disturbed %v: %s", c.others, got, f.Note)
		}
	}
}
