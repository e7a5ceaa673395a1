package access

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// answer is what the API server said, and when it was asked.
type answer[V any] struct {
	value V
	yes   bool
	asked time.Time
}

// freshness is how old an answer may be to be used.
type freshness struct{ yes, no time.Duration }

// source tells where an answer came from.
type source int

const (
	asked source = iota
	joined
	remembered
)

// memo keeps answers for a while, and lets all who ask the same at the same time wait for one
// review. Errors are not kept. Yes and no are kept apart, so that a flood of tokens that are not
// valid does not push out those that are.
type memo[K comparable, V any] struct {
	clock   clock.PassiveClock
	yes, no *lru.Cache

	mu      sync.Mutex
	flights map[K]*flight[V]
}

// flight is a review that is being made. The last one who stops waiting ends it.
type flight[V any] struct {
	cancel  context.CancelFunc
	waiters int // guarded by memo.mu

	done   chan struct{}
	answer answer[V] // after done
	err    error     // after done
}

func newMemo[K comparable, V any](c clock.PassiveClock, size int) *memo[K, V] {
	return &memo[K, V]{clock: c, yes: lru.New(size), no: lru.New(size), flights: map[K]*flight[V]{}}
}

// get returns a kept answer that is fresh enough, or calls ask for a new one.
func (m *memo[K, V]) get(
	ctx context.Context, key K, fresh freshness, ask func(context.Context) (V, bool, error),
) (answer[V], source, error) {
	if err := ctx.Err(); err != nil {
		return answer[V]{}, remembered, err
	}
	for {
		a, f, from := m.recallOrJoin(ctx, key, fresh, ask)
		if f == nil {
			return a, from, nil
		}
		select {
		case <-ctx.Done():
			m.leave(key, f)
			return answer[V]{}, from, ctx.Err()
		case <-f.done:
		}
		// A review that was joined may have begun too long ago for this caller; an own one is as
		// fresh as can be.
		if from == asked || f.err != nil || m.freshEnough(f.answer, fresh) {
			return f.answer, from, f.err
		}
	}
}

func (m *memo[K, V]) freshEnough(a answer[V], fresh freshness) bool {
	limit := fresh.no
	if a.yes {
		limit = fresh.yes
	}
	return m.clock.Since(a.asked) < limit
}

// recall returns the newest kept answer if it is fresh enough.
func (m *memo[K, V]) recall(key K, fresh freshness) (answer[V], bool) {
	newest, ok := m.in(m.no, key)
	if yes, found := m.in(m.yes, key); found && (!ok || yes.asked.After(newest.asked)) {
		newest, ok = yes, true
	}
	return newest, ok && m.freshEnough(newest, fresh)
}

func (m *memo[K, V]) in(c *lru.Cache, key K) (answer[V], bool) {
	v, ok := c.Get(key)
	if !ok {
		return answer[V]{}, false
	}
	return v.(answer[V]), true
}

// wasYes tells whether the last answer that is still kept was a yes, however old.
func (m *memo[K, V]) wasYes(key K) bool {
	_, ok := m.yes.Get(key)
	return ok
}

// recallOrJoin returns a kept answer, or else the review to wait for.
func (m *memo[K, V]) recallOrJoin(
	ctx context.Context, key K, fresh freshness, ask func(context.Context) (V, bool, error),
) (answer[V], *flight[V], source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Under the lock: an answer that has just come must not be asked for a second time.
	if a, ok := m.recall(key, fresh); ok {
		return a, nil, remembered
	}
	if f, ok := m.flights[key]; ok {
		f.waiters++
		return answer[V]{}, f, joined
	}
	// Others may come to wait for this review: it must not end with its first caller.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[V]{cancel: cancel, waiters: 1, done: make(chan struct{})}
	m.flights[key] = f
	go m.fly(own, key, f, ask)
	return answer[V]{}, f, asked
}

func (m *memo[K, V]) fly(ctx context.Context, key K, f *flight[V], ask func(context.Context) (V, bool, error)) {
	defer f.cancel()
	defer close(f.done)
	began := m.clock.Now()
	value, yes, err := ask(ctx)
	f.answer, f.err = answer[V]{value, yes, began}, err
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.flights[key] != f {
		return // nobody waits, and a later review may have answered already
	}
	delete(m.flights, key)
	if err != nil {
		f.answer = answer[V]{}
		return
	}
	kept, other := m.no, m.yes
	if yes {
		kept, other = m.yes, m.no
	}
	kept.Add(key, f.answer)
	other.Remove(key)
}

func (m *memo[K, V]) leave(key K, f *flight[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if m.flights[key] == f {
		delete(m.flights, key)
	}
}
