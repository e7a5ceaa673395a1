package authz

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var testFreshness = freshness{allowed: 30 * time.Second, denied: 10 * time.Second}

func TestReviewCacheExpiresResults(t *testing.T) {
	cases := map[string]struct {
		yes   bool
		err   error
		after time.Duration
		want  int32 // reviews after the second lookup
	}{
		"allowed is cached":      {yes: true, after: 29 * time.Second, want: 1},
		"allowed expires":        {yes: true, after: 30 * time.Second, want: 2},
		"denied is cached":       {after: 9 * time.Second, want: 1},
		"denied expires earlier": {after: 10 * time.Second, want: 2},
		"error is not cached":    {err: errors.New("unavailable"), want: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(0, 0))
			m := newReviewCache[string, int](clock, 10)
			var reviews atomic.Int32
			ask := func(context.Context) (int, bool, error) { reviews.Add(1); return 7, tc.yes, tc.err }
			for range 2 {
				a, _, err := m.get(t.Context(), "k", testFreshness, ask)
				if !errors.Is(err, tc.err) || (err != nil && a.allowed) {
					t.Fatalf("got %+v, %v", a, err)
				}
				clock.Step(tc.after)
			}
			if got := reviews.Load(); got != tc.want {
				t.Errorf("got %d reviews, want %d", got, tc.want)
			}
		})
	}
}

func TestReviewCacheIsBounded(t *testing.T) {
	m := newReviewCache[int, int](clocktesting.NewFakeClock(time.Unix(0, 0)), 100)
	for i := range 10_000 {
		yes := i < 50
		if _, _, err := m.get(t.Context(), i, testFreshness, func(context.Context) (int, bool, error) { return 0, yes, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if m.allowed.Len() != 50 || m.denied.Len() != 100 || len(m.inFlight) != 0 {
		t.Errorf("got %d allowed, %d denied, %d in flight; want all 50, the last 100 and none", m.allowed.Len(), m.denied.Len(), len(m.inFlight))
	}
}

func TestReviewCacheSharesOneReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newReviewCache[string, int](clocktesting.NewFakeClock(time.Unix(0, 0)), 10)
		var reviews atomic.Int32
		ask := func(context.Context) (int, bool, error) {
			time.Sleep(time.Millisecond) // returns when all callers wait
			reviews.Add(1)
			return 7, true, nil
		}
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if a, _, err := m.get(t.Context(), "k", testFreshness, ask); err != nil || a.value != 7 {
					t.Errorf("got %+v, %v", a, err)
				}
			})
		}
		wg.Wait()
		if got := reviews.Load(); got != 1 {
			t.Errorf("got %d reviews, want 1", got)
		}
	})
}

func TestReviewRunsWhileAnyCallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newReviewCache[string, int](clocktesting.NewFakeClock(time.Unix(0, 0)), 10)
		var reviews atomic.Int32
		ended := make(chan struct{})
		ask := func(ctx context.Context) (int, bool, error) {
			reviews.Add(1)
			<-ctx.Done()
			close(ended)
			return 0, true, nil // late and outdated
		}
		first, leave := context.WithCancel(t.Context())
		second, leaveToo := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, ctx := range []context.Context{first, second} {
			wg.Go(func() {
				if _, _, err := m.get(ctx, "k", testFreshness, ask); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		select {
		case <-ended:
			t.Fatal("the review ended with its first caller although another caller waits")
		default:
		}
		leaveToo()
		wg.Wait()
		<-ended
		synctest.Wait()
		if got := reviews.Load(); got != 1 {
			t.Errorf("got %d reviews", got)
		}
		if m.wasAllowed("k") {
			t.Error("the result of a canceled review is cached")
		}
	})
}

func TestJoinedReviewMustBeFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocktesting.NewFakeClock(time.Unix(0, 0))
		m := newReviewCache[string, int](clock, 10)
		release := make(chan struct{})
		var reviews atomic.Int32
		ask := func(context.Context) (int, bool, error) {
			n := reviews.Add(1)
			<-release
			return int(n), true, nil
		}
		var wg sync.WaitGroup
		get := func(fresh freshness, want int) {
			wg.Go(func() {
				if a, _, err := m.get(t.Context(), "k", fresh, ask); err != nil || a.value != want {
					t.Errorf("got review %d, %v; want %d", a.value, err, want)
				}
			})
		}
		get(testFreshness, 1)
		synctest.Wait()
		clock.Step(20 * time.Second)
		get(freshness{10 * time.Second, 10 * time.Second}, 2) // the first review started 20 s ago
		synctest.Wait()
		close(release)
		wg.Wait()
	})
}
