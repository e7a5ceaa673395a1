package engine

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/holdfast-dev/holdfast/internal/apply"
)

const (
	initialBackoff = 20 * time.Millisecond
	// An API server that cannot be reached will be back at some moment: one that looks
	// rarely would add its own delay to the outage.
	maxUnreachableBackoff = 5 * time.Second
)

// backoff decides when to try again what failed: ever more rarely, and how rarely at
// most depends on why it failed. It implements the queue's rate limiter.
type backoff struct {
	workqueue.TypedRateLimiter[reconcile.Request]

	mu          sync.Mutex
	unreachable map[reconcile.Request]bool
	// postponed are those that were not tried: the queue forgets them, and we do not.
	postponed map[reconcile.Request]bool
}

func newBackoff(maxDelay time.Duration) *backoff {
	return &backoff{
		TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](initialBackoff, maxDelay),
		unreachable:      map[reconcile.Request]bool{},
		postponed:        map[reconcile.Request]bool{},
	}
}

// failedBefore says whether the last try failed.
func (b *backoff) failedBefore(req reconcile.Request) bool { return b.NumRequeues(req) > 0 }

// postpone says that something is not tried now, so that nothing is known newly.
func (b *backoff) postpone(req reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.postponed[req] = true
}

// recordFailure says why the last try failed, before the queue asks.
func (b *backoff) recordFailure(req reconcile.Request, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if apply.IsRejected(err) {
		delete(b.unreachable, req)
		return
	}
	b.unreachable[req] = true
}

// When is how long to wait.
func (b *backoff) When(req reconcile.Request) time.Duration {
	wait := b.TypedRateLimiter.When(req)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unreachable[req] {
		return min(wait, maxUnreachableBackoff)
	}
	return wait
}

// Forget starts again after a success.
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
