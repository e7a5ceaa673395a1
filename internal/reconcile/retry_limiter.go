package reconcile

import "time"

// retryLimitDelay is how long a failed application waits while too many other applications are
// being retried.
const retryLimitDelay = time.Second

// retryLimiter limits retries of failed applications to half of the workers. An unresponsive
// webhook can block a reconcile for 10 seconds or more, and must not delay applications that do not
// use the webhook.
type retryLimiter chan struct{}

func newRetryLimiter(workers int) retryLimiter { return make(retryLimiter, max(1, workers/2)) }

// tryAcquire reports whether a retry may start. If so, the caller must call release.
func (l retryLimiter) tryAcquire() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

func (l retryLimiter) release() { <-l }
