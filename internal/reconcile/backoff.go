package reconcile

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/apply"
)

const (
	initialBackoff = 20 * time.Millisecond
	// A longer delay would postpone the recovery after the API server is reachable again.
	maxUnreachableBackoff = 5 * time.Second
)

// backoff is the rate limiter of the queue. Delays grow exponentially; the maximum is lower while the
// API server is unreachable.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]

	mu          sync.Mutex
	unreachable map[reconcile.Request]bool
	// postponed are requests that were not reconciled. The queue calls Forget for them, but their
	// failures must stay counted.
	postponed map[reconcile.Request]bool
}

func newBackoff(maxDelay time.Duration) *backoff {
	return &backoff{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](initialBackoff, maxDelay),
		unreachable:      map[reconcile.Request]bool{},
		postponed:        map[reconcile.Request]bool{},
	}
}

// failedBefore reports whether the last attempt failed.
func (b *backoff) failedBefore(req reconcile.Request) bool { return b.NumRequeues(req) > 0 }

// postpone records that a request was not reconciled, so that the next Forget does not reset its
// failures.
func (b *backoff) postpone(req reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.postponed[req] = true
}

// recordFailure records why the last attempt failed, before the queue calls When.
func (b *backoff) recordFailure(req reconcile.Request, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if apply.IsRejected(err) {
		delete(b.unreachable, req)
		return
	}
	b.unreachable[req] = true
}

// When returns how long to wait before the next attempt.
func (b *backoff) When(req reconcile.Request) time.Duration {
	wait := b.TypedRateLimiter.When(req)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unreachable[req] {
		return min(wait, maxUnreachableBackoff)
	}
	return wait
}

// Forget resets the backoff after a success.
func (b *backoff) Forget(req reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.postponed[req] {
		delete(b.postponed, req)
		return
	}
	b.TypedRateLimiter.Forget(req)
	delete(b.unreachable, req)
}
