package engine

import "time"

// fullWard is how long an application waits that failed before, while too many of those are
// being tried.
const fullWard = time.Second

// ward is where applications are tried that failed before. They have no more than half of the
// workers: a webhook that does not answer keeps a pass waiting for 10 seconds or more, and
// applications of others must not stand in line behind those that wait for it.
type ward chan struct{}

func newWard(workers int) ward { return make(ward, max(1, workers/2)) }

// enter says whether there is room.
func (w ward) enter() bool {
	select {
	case w <- struct{}{}:
		return true
	default:
		return false
	}
}

func (w ward) leave() { <-w }
