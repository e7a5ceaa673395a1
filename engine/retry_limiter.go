package engine

import "time"

// retryLimitDelay is how long an application waits that failed before, while too many of those are
// being tried.
const retryLimitDelay = time.Second

// retryLimiter is where applications are tried that failed before. They have no more than half of the
// workers: a webhook that does not answer keeps a pass waiting for 10 seconds or more, and
// applications of others must not stand in line behind those that wait for it.
type retryLimiter chan struct{}

func newRetryLimiter(workers int) retryLimiter { return make(retryLimiter, max(1, workers/2)) }

// tryAcquire says whether there is room.
func (l retryLimiter) tryAcquire() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l retryLimiter) release() { <-l }
