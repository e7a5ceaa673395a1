package authz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// StreamViewer returns a Viewer for an open stream. It reviews the token and the scopes every RecheckInterval
// until ctx ends, the token is no longer valid, or the API server has not responded for StaleAfter.
func (r *Reviewer) StreamViewer(ctx context.Context, token Token) (*Viewer, error) {
	o := &r.options
	fresh := freshness{o.MaxSharedAge, o.MaxSharedAge}
	identified, err := r.authenticate(ctx, token, fresh)
	if err != nil {
		return nil, err
	}
	s := r.newViewer(ctx, identified.value.user, identified.reviewedAt.Add(o.StaleAfter), fresh)
	s.token = token
	go s.recheckLoop()
	return s, nil
}

func (s *Viewer) recheckLoop() {
	timer := s.reviewer.options.Clock.NewTimer(s.recheckDelay(nil))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.terminate(context.Cause(s.ctx))
			return
		case <-timer.C():
		}
		err := s.recheck()
		if errors.Is(err, ErrInvalidToken) {
			s.terminate(err)
			return
		}
		if now := s.reviewer.options.Clock.Now(); !now.Before(s.deadline()) {
			s.terminate(s.staleError(err))
			return
		}
		timer.Reset(s.recheckDelay(err))
	}
}

func (s *Viewer) staleError(err error) error {
	if err == nil {
		err = ErrReviewFailed
	}
	return fmt.Errorf("permissions of %s were last checked more than %s ago, so access is denied: %w",
		s.User().name, s.reviewer.options.StaleAfter, err)
}

// recheckDelay returns the time until the next re-check, at most until the deadline. Jitter spreads streams
// that started together, as after a restart.
func (s *Viewer) recheckDelay(err error) time.Duration {
	o := &s.reviewer.options
	wait := o.RecheckInterval - rand.N(o.RecheckInterval/10+1)
	if err != nil {
		wait = o.RetryInterval
	}
	return max(min(wait, s.deadline().Sub(o.Clock.Now())), 0)
}

// deadline returns the time at which the oldest allowed decision or the token review expires.
func (s *Viewer) deadline() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	oldest := s.validUntil
	for _, v := range s.decisions {
		if at := v.reviewedAt.Add(s.reviewer.options.StaleAfter); v.allowed && at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// recheck reviews the token and the scopes. Allowed scopes come first and separately, because a failed review
// of another scope must not keep them from being renewed. Then come cluster-wide scopes, because an allowed
// one replaces the reviews of single namespaces.
func (s *Viewer) recheck() error {
	o := &s.reviewer.options
	timeout := min(o.recheckTimeout(), s.deadline().Sub(o.Clock.Now()))
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	if err := s.recheckToken(ctx); err != nil {
		return err
	}
	for _, include := range []func(Scope, decision) bool{
		func(_ Scope, v decision) bool { return v.allowed },
		func(scope Scope, v decision) bool { return !v.allowed && scope.Namespace == "" },
	} {
		if err := s.reviewScopes(ctx, s.oldestFirst(include)); err != nil {
			return err
		}
	}
	denied := s.oldestFirst(func(scope Scope, v decision) bool { return !v.allowed && scope.Namespace != "" })
	return s.reviewScopes(ctx, denied[:min(len(denied), o.DeniedPerRecheck)])
}

func (s *Viewer) recheckToken(ctx context.Context) error {
	identified, err := s.reviewer.authenticate(ctx, s.token, s.fresh)
	if err != nil {
		return err
	}
	user := identified.value.user
	s.mu.Lock()
	old := s.user
	if user.name == old.name && user.uid == old.uid {
		s.user, s.validUntil = user, identified.reviewedAt.Add(s.reviewer.options.StaleAfter)
	}
	s.mu.Unlock()
	if user.name != old.name || user.uid != old.uid {
		return invalidTokenError("it belongs to another user now")
	}
	return nil
}

// oldestFirst returns the included scopes, sorted by the age of their reviews. The order is the same for all
// streams of a user, so that they share reviews.
func (s *Viewer) oldestFirst(include func(Scope, decision) bool) []Scope {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var scopes []Scope
	for scope, v := range s.decisions {
		if include(scope, v) {
			scopes = append(scopes, scope)
		}
	}
	slices.SortFunc(scopes, func(a, b Scope) int {
		return cmp.Or(s.decisions[a].reviewedAt.Compare(s.decisions[b].reviewedAt), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	return scopes
}
