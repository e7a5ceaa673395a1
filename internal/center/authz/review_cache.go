package authz

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// reviewResult is the response of the API server and the time of the request.
type reviewResult[V any] struct {
	value      V
	allowed    bool
	reviewedAt time.Time
}

// freshness is the maximum age of a result that may be used.
type freshness struct{ allowed, denied time.Duration }

// resultSource is where a result came from, for [Stats].
type resultSource int

const (
	fromReview resultSource = iota
	fromInFlight
	fromCache
)

// reviewCache caches results and merges concurrent requests for the same key into one review. It
// does not cache errors. Allowed and denied results have separate caches, so that a flood of invalid
// tokens does not evict valid ones. The caches of k8s.io/apiserver do not expose the age of a result,
// which streams need: docs/adr/0019-libraries.md.
type reviewCache[K comparable, V any] struct {
	clock           clock.PassiveClock
	allowed, denied *lru.Cache

	mu       sync.Mutex
	inFlight map[K]*inFlightReview[V]
}

// inFlightReview is a running review. It is canceled when its last waiter leaves.
type inFlightReview[V any] struct {
	cancel  context.CancelFunc
	waiters int // guarded by reviewCache.mu

	done   chan struct{}
	result reviewResult[V] // after done
	err    error           // after done
}

func newReviewCache[K comparable, V any](c clock.PassiveClock, size int) *reviewCache[K, V] {
	return &reviewCache[K, V]{clock: c, allowed: lru.New(size), denied: lru.New(size), inFlight: map[K]*inFlightReview[V]{}}
}

// get returns a cached result that is fresh enough, or the result of a review.
func (m *reviewCache[K, V]) get(
	ctx context.Context, key K, fresh freshness, review func(context.Context) (V, bool, error),
) (reviewResult[V], resultSource, error) {
	if err := ctx.Err(); err != nil {
		return reviewResult[V]{}, fromCache, err
	}
	for {
		cached, f, from := m.lookupOrJoin(ctx, key, fresh, review)
		if f == nil {
			return cached, from, nil
		}
		select {
		case <-ctx.Done():
			m.leave(key, f)
			return reviewResult[V]{}, from, ctx.Err()
		case <-f.done:
		}
		// A review that this caller joined may have started too long ago.
		if from == fromReview || f.err != nil || m.isFresh(f.result, fresh) {
			return f.result, from, f.err
		}
	}
}

func (m *reviewCache[K, V]) isFresh(result reviewResult[V], fresh freshness) bool {
	maxAge := fresh.denied
	if result.allowed {
		maxAge = fresh.allowed
	}
	return m.clock.Since(result.reviewedAt) < maxAge
}

// lookup returns the cached result if it is fresh enough. A key is in at most one of the two caches.
func (m *reviewCache[K, V]) lookup(key K, fresh freshness) (reviewResult[V], bool) {
	for _, cache := range []*lru.Cache{m.allowed, m.denied} {
		if cached, ok := cache.Get(key); ok {
			result := cached.(reviewResult[V])
			return result, m.isFresh(result, fresh)
		}
	}
	return reviewResult[V]{}, false
}

// wasAllowed reports whether the last result was allowed, regardless of its age.
func (m *reviewCache[K, V]) wasAllowed(key K) bool {
	_, ok := m.allowed.Get(key)
	return ok
}

// lookupOrJoin returns a cached result, or else the review to wait for.
func (m *reviewCache[K, V]) lookupOrJoin(
	ctx context.Context, key K, fresh freshness, review func(context.Context) (V, bool, error),
) (reviewResult[V], *inFlightReview[V], resultSource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Under the lock, so that a review that has just finished is not repeated.
	if cached, ok := m.lookup(key, fresh); ok {
		return cached, nil, fromCache
	}
	if f, ok := m.inFlight[key]; ok {
		f.waiters++
		return reviewResult[V]{}, f, fromInFlight
	}
	// Other callers may join this review, so it must not end with its first caller.
	reviewCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &inFlightReview[V]{cancel: cancel, waiters: 1, done: make(chan struct{})}
	m.inFlight[key] = f
	go m.run(reviewCtx, key, f, review)
	return reviewResult[V]{}, f, fromReview
}

func (m *reviewCache[K, V]) run(ctx context.Context, key K, f *inFlightReview[V], review func(context.Context) (V, bool, error)) {
	defer f.cancel()
	defer close(f.done)
	start := m.clock.Now()
	value, allowed, err := review(ctx)
	f.result, f.err = reviewResult[V]{value, allowed, start}, err
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inFlight[key] != f {
		return // all callers have left, and a later review may have finished already
	}
	delete(m.inFlight, key)
	if err != nil {
		f.result = reviewResult[V]{}
		return
	}
	cache, other := m.denied, m.allowed
	if allowed {
		cache, other = m.allowed, m.denied
	}
	cache.Add(key, f.result)
	other.Remove(key)
}

func (m *reviewCache[K, V]) leave(key K, f *inFlightReview[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if m.inFlight[key] == f {
		delete(m.inFlight, key)
	}
}
