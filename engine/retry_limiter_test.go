package engine

import "testing"

func TestRetryLimiter(t *testing.T) {
	for workers, limit := range map[int]int{1: 1, 2: 1, 8: 4, 33: 16} {
		w := newRetryLimiter(workers)
		for i := range limit {
			if !w.tryAcquire() {
				t.Errorf("%d workers: no room for number %d of %d", workers, i+1, limit)
			}
		}
		if w.tryAcquire() {
			t.Errorf("%d workers: all are busy with what failed before", workers)
		}
		w.release()
		if !w.tryAcquire() {
			t.Errorf("%d workers: one has left, and there is no room", workers)
		}
	}
}
