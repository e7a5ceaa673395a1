// Package fairqueue shares the capacity of the center among its tenants.
package fairqueue

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrQueueFull means that a tenant has too much waiting work.
var ErrQueueFull = errors.New("too much waiting work")

// Slots limits concurrent work. Tenants with waiting work take turns, and one tenant uses at most a part of the
// slots, so that the work of one tenant delays that of others only a little.
type Slots struct {
	perTenant, maxWaiting int

	mu      sync.Mutex
	free    int
	tenants map[string]*tenantWork // with running or waiting work
	turns   []*tenantWork          // with waiting work, the next first
}

// tenantWork is the work of a tenant. A waiter has a channel that is closed when it gets a slot.
type tenantWork struct {
	name    string
	running int
	waiting []chan struct{}
}

// NewSlots returns slots of which one tenant uses at most perTenant, with a queue of at most maxWaiting.
func NewSlots(total, perTenant, maxWaiting int) *Slots {
	return &Slots{free: total, perTenant: perTenant, maxWaiting: maxWaiting, tenants: map[string]*tenantWork{}}
}

// Acquire waits for a slot. Without an error, Release must be called.
func (s *Slots) Acquire(ctx context.Context, tenant string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, turn, err := s.enqueue(tenant)
	if err != nil {
		return err
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		s.abandon(t, turn)
		return ctx.Err()
	}
}

func (s *Slots) enqueue(tenant string) (*tenantWork, chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		t = &tenantWork{name: tenant}
		s.tenants[tenant] = t
	}
	if len(t.waiting) >= s.maxWaiting {
		return nil, nil, ErrQueueFull
	}
	turn := make(chan struct{})
	if t.waiting = append(t.waiting, turn); len(t.waiting) == 1 {
		s.turns = append(s.turns, t)
	}
	s.grant()
	return t, turn, nil
}

// Release returns a slot.
func (s *Slots) Release(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	t.running--
	s.free++
	s.forgetIdle(t)
	s.grant()
}

// grant gives free slots to waiters.
func (s *Slots) grant() {
	for s.free > 0 {
		i := slices.IndexFunc(s.turns, func(t *tenantWork) bool { return t.running < s.perTenant })
		if i < 0 {
			return
		}
		t := s.turns[i]
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		t.running++
		s.free--
		s.turns = slices.Delete(s.turns, i, i+1)
		if len(t.waiting) > 0 {
			s.turns = append(s.turns, t)
		}
	}
}

// abandon removes a waiter that gave up. It may have got a slot in the meantime.
func (s *Slots) abandon(t *tenantWork, turn chan struct{}) {
	s.mu.Lock()
	i := slices.Index(t.waiting, turn)
	if i < 0 {
		s.mu.Unlock()
		s.Release(t.name)
		return
	}
	defer s.mu.Unlock()
	if t.waiting = slices.Delete(t.waiting, i, i+1); len(t.waiting) == 0 {
		s.turns = slices.DeleteFunc(s.turns, func(other *tenantWork) bool { return other == t })
	}
	s.forgetIdle(t)
}

func (s *Slots) forgetIdle(t *tenantWork) {
	if t.running == 0 && len(t.waiting) == 0 {
		delete(s.tenants, t.name)
	}
}
