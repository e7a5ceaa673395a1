package bench

import (
	"time"
)

// calm lets a control plane that has just started come to rest.
const calm = 2 * time.Second

// idle returns when a process has used next to no CPU for a second.
func (s *stage) idle(pid int) {
	s.Helper()
	last := cpu(s, pid)
	for range int(patience / time.Second) {
		time.Sleep(time.Second)
		now := cpu(s, pid)
		if now-last < 0.02 {
			return
		}
		last = now
	}
	s.Fatal("the operator does not come to rest")
}
