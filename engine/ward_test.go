package engine

import "testing"

func TestWard(t *testing.T) {
	for workers, room := range map[int]int{1: 1, 2: 1, 8: 4, 33: 16} {
		w := newWard(workers)
		for i := range room {
			if !w.enter() {
				t.Errorf("%d workers: no room for number %d of %d", workers, i+1, room)
			}
		}
		if w.enter() {
			t.Errorf("%d workers: all are busy with what failed before", workers)
		}
		w.leave()
		if !w.enter() {
			t.Errorf("%d workers: one has left, and there is no room", workers)
		}
	}
}
