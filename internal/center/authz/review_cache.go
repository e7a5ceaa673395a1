package authz

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// reviewResult is what the API server said, and when it was asked.
type reviewResult[V any] struct {
	value      V
	allowed    bool
	reviewedAt time.Time
}

// freshness is how old an answer may be to be used.
type freshness struct{ allowed, denied time.Duration }

// resultSource tells where an answer came from.
type resultSource int

const (
	fromReview resultSource = iota
	fromInFlight
	fromCache
)

// reviewCache keeps answers for a while, and lets all who ask the same at the same time wait for one
// review. Errors are not kept. Yes and no are kept apart, so that a flood of tokens that are not
// valid does not push out those that are.
type reviewCache[K comparable, V any] struct {
	clock           clock.PassiveClock
	allowed, denied *lru.Cache

	mu       sync.Mutex
	inFlight map[K]*inFlightReview[V]
}

// inFlightReview is a review that is being made. The last one who stops waiting ends it.
type inFlightReview[V any] struct {
	cancel  context.CancelFunc
	waiters int // guarded by memo.mu

	done   chan struct{}
	result reviewResult[V] // after done
	err    error           // after done
}

func newReviewCache[K comparable, V any](c clock.PassiveClock, size int) *reviewCache[K, V] {
	return &reviewCache[K, V]{clock: c, allowed: lru.New(size), denied: lru.New(size), inFlight: map[K]*inFlightReview[V]{}}
}

// get returns a kept answer that is fresh enough, or calls ask for a new one.
func (m *reviewCache[K, V]) get(
	ctx context.Context, key K, fresh freshness, review func(context.Context) (V, bool, error),
) (reviewResult[V], resultSource, error) {
	if err := ctx.Err(); err != nil {
		return reviewResult[V]{}, fromCache, err
	}
	for {
		a, f, from := m.lookupOrJoin(ctx, key, fresh, review)
		if f == nil {
			return a, from, nil
		}
		select {
		case <-ctx.Done():
			m.leave(key, f)
			return reviewResult[V]{}, from, ctx.Err()
		case <-f.done:
		}
		// A review that was joined may have begun too long ago for this caller; an own one is as
		// fresh as can be.
		if from == fromReview || f.err != nil || m.isFresh(f.result, fresh) {
			return f.result, from, f.err
		}
	}
}

func (m *reviewCache[K, V]) isFresh(a reviewResult[V], fresh freshness) bool {
	limit := fresh.denied
	if a.allowed {
		limit = fresh.allowed
	}
	return m.clock.Since(a.reviewedAt) < limit
}

// lookup returns the newest kept answer if it is fresh enough.
func (m *reviewCache[K, V]) lookup(key K, fresh freshness) (reviewResult[V], bool) {
	newest, ok := m.cachedIn(m.denied, key)
	if yes, found := m.cachedIn(m.allowed, key); found && (!ok || yes.reviewedAt.After(newest.reviewedAt)) {
		newest, ok = yes, true
	}
	return newest, ok && m.isFresh(newest, fresh)
}

func (m *reviewCache[K, V]) cachedIn(c *lru.Cache, key K) (reviewResult[V], bool) {
	v, ok := c.Get(key)
	if !ok {
		return reviewResult[V]{}, false
	}
	return v.(reviewResult[V]), true
}

// wasAllowed tells whether the last answer that is still kept was a yes, however old.
func (m *reviewCache[K, V]) wasAllowed(key K) bool {
	_, ok := m.allowed.Get(key)
	return ok
}

// lookupOrJoin returns a kept answer, or else the review to wait for.
func (m *reviewCache[K, V]) lookupOrJoin(
	ctx context.Context, key K, fresh freshness, review func(context.Context) (V, bool, error),
) (reviewResult[V], *inFlightReview[V], resultSource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Under the lock: an answer that has just come must not be asked for a second time.
	if a, ok := m.lookup(key, fresh); ok {
		return a, nil, fromCache
	}
	if f, ok := m.inFlight[key]; ok {
		f.waiters++
		return reviewResult[V]{}, f, fromInFlight
	}
	// Others may come to wait for this review: it must not end with its first caller.
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
		return // nobody waits, and a later review may have answered already
	}
	delete(m.inFlight, key)
	if err != nil {
		f.result = reviewResult[V]{}
		return
	}
	kept, other := m.denied, m.allowed
	if allowed {
		kept, other = m.allowed, m.denied
	}
	kept.Add(key, f.result)
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
