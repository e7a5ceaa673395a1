package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTenantsTakeTurns checks that a tenant with many waiting reviews uses only its share of the slots, and that
// another tenant waits for at most one of them.
func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(4, 2, 1000)
		review := func(tenant string) error {
			if err := s.Acquire(t.Context(), tenant); err != nil {
				return err
			}
			defer s.Release(tenant)
			time.Sleep(time.Second)
			return nil
		}
		var flood sync.WaitGroup
		for i := range 300 {
			flood.Go(func() { _ = review(fmt.Sprint("flood-", i%3)) })
		}
		synctest.Wait()
		running := 0
		for name, tenant := range s.tenants {
			if tenant.running > 2 {
				t.Errorf("tenant %s has %d reviews running", name, tenant.running)
			}
			running += tenant.running
		}
		if running != 4 {
			t.Errorf("%d reviews are running", running)
		}
		start := time.Now()
		for range 10 {
			if err := review("quiet"); err != nil {
				t.Fatal(err)
			}
		}
		// Each of its reviews waits until a running one ends, and runs for a second.
		if got := time.Since(start); got > 20*time.Second {
			t.Errorf("10 reviews of the quiet tenant took %s", got)
		}
		flood.Wait()
		if s.free != 4 || len(s.tenants) != 0 || len(s.turns) != 0 {
			t.Errorf("after all reviews: %d slots free, tenants %v, turns %v", s.free, s.tenants, s.turns)
		}
	})
}

// TestTenantKeepsItsShareFree checks that a single tenant leaves slots for others.
func TestTenantKeepsItsShareFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(4, 2, 1000)
		for range 8 {
			go func() {
				if s.Acquire(t.Context(), "flood") == nil {
					<-t.Context().Done()
				}
			}()
		}
		synctest.Wait()
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := s.Acquire(ctx, "quiet"); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}

// TestAbandonedReviewsFreeTheirTurn cancels waiting reviews at random times.
func TestAbandonedReviewsFreeTheirTurn(t *testing.T) {
	s := NewSlots(3, 2, 1000)
	var running, most atomic.Int64
	var all sync.WaitGroup
	for i := range 2000 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*100*time.Microsecond)
			defer cancel()
			tenant := fmt.Sprint(i % 5)
			if s.Acquire(ctx, tenant) != nil {
				return
			}
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(50 * time.Microsecond)
			running.Add(-1)
			s.Release(tenant)
		})
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d reviews ran at the same time", most.Load())
	}
	if s.free != 3 || len(s.tenants) != 0 || len(s.turns) != 0 {
		t.Errorf("after all reviews: %d slots free, tenants %v, turns %v", s.free, s.tenants, s.turns)
	}
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(4, 2, 3)
		for range 5 { // two run and three wait
			go func() {
				if s.Acquire(t.Context(), "flood") == nil {
					<-t.Context().Done()
				}
			}()
		}
		synctest.Wait()
		if err := s.Acquire(t.Context(), "flood"); !errors.Is(err, ErrQueueFull) {
			t.Errorf("got %v", err)
		}
		if err := s.Acquire(t.Context(), "quiet"); err != nil {
			t.Error(err)
		}
	})
}
