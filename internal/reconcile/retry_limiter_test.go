package reconcile

import "testing"

func TestRetryLimiter(t *testing.T) {
	for workers, limit := range map[int]int{1: 1, 2: 1, 8: 4, 33: 16} {
		w := newRetryLimiter(workers)
		for i := range limit {
			if !w.tryAcquire() {
				t.Errorf("%d workers: retry %d of %d was rejected", workers, i+1, limit)
			}
		}
		if w.tryAcquire() {
			t.Errorf("%d workers: a retry beyond the limit was accepted", workers)
		}
		w.release()
		if !w.tryAcquire() {
			t.Errorf("%d workers: a retry was rejected after a release", workers)
		}
	}
}
