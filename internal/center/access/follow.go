package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Follow returns what the owner of a token sees, for as long as a stream is open. Token and
// scopes are reviewed again every RecheckEvery until ctx ends, the token is not valid any more,
// or the API server has not answered for StaleAfter.
func (r *Reviewer) Follow(ctx context.Context, token Token) (*Sight, error) {
	o := &r.options
	fresh := freshness{o.SharedFor, o.SharedFor}
	who, err := r.authenticate(ctx, token, fresh)
	if err != nil {
		return nil, err
	}
	s := r.newSight(ctx, who.value.user, who.asked.Add(o.StaleAfter), fresh)
	s.token = token
	go s.follow()
	return s, nil
}

func (s *Sight) follow() {
	timer := s.reviewer.options.Clock.NewTimer(s.pause(nil))
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			s.end(context.Cause(s.ctx))
			return
		case <-timer.C():
		}
		err := s.round()
		if errors.Is(err, ErrNotValid) {
			s.end(err)
			return
		}
		if now := s.reviewer.options.Clock.Now(); !now.Before(s.deadline()) {
			s.end(s.tooOld(err))
			return
		}
		timer.Reset(s.pause(err))
	}
}

func (s *Sight) tooOld(err error) error {
	if err == nil {
		err = ErrCannotCheck
	}
	return fmt.Errorf("what %s sees was last checked more than %s ago, so nothing is shown: %w",
		s.User().name, s.reviewer.options.StaleAfter, err)
}

// pause is how long to wait for the next round, and never beyond the deadline. Streams that
// began together, as after a restart, drift apart.
func (s *Sight) pause(err error) time.Duration {
	o := &s.reviewer.options
	wait := o.RecheckEvery - rand.N(o.RecheckEvery/10+1)
	if err != nil {
		wait = o.RetryEvery
	}
	return max(min(wait, s.deadline().Sub(o.Clock.Now())), 0)
}

// deadline is when the oldest yes, or the token, is too old to show anything by it.
func (s *Sight) deadline() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	oldest := s.until
	for _, v := range s.scopes {
		if at := v.asked.Add(s.reviewer.options.StaleAfter); v.yes && at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// round reviews the token and what was asked for. The rights that are there come first, and by
// themselves: a question that fails must not keep them from being renewed. A yes for all
// namespaces leaves fewer questions for the rest.
func (s *Sight) round() error {
	o := &s.reviewer.options
	left := min(o.roundTimeout(), s.deadline().Sub(o.Clock.Now()))
	ctx, cancel := context.WithTimeout(s.ctx, left)
	defer cancel()
	if err := s.renewUser(ctx); err != nil {
		return err
	}
	for _, due := range []func(Scope, verdict) bool{
		func(_ Scope, v verdict) bool { return v.yes },
		func(scope Scope, v verdict) bool { return !v.yes && scope.Namespace == "" },
	} {
		if err := s.ask(ctx, s.oldest(due)); err != nil {
			return err
		}
	}
	noes := s.oldest(func(scope Scope, v verdict) bool { return !v.yes && scope.Namespace != "" })
	return s.ask(ctx, noes[:min(len(noes), o.NoesPerRound)])
}

func (s *Sight) renewUser(ctx context.Context) error {
	who, err := s.reviewer.authenticate(ctx, s.token, s.fresh)
	if err != nil {
		return err
	}
	user := who.value.user
	s.mu.Lock()
	old := s.user
	if user.name == old.name && user.uid == old.uid {
		s.user, s.until = user, who.asked.Add(s.reviewer.options.StaleAfter)
	}
	s.mu.Unlock()
	if user.name != old.name || user.uid != old.uid {
		return notValid("it belongs to another user now")
	}
	return nil
}

// oldest returns the scopes that are due, those whose answer is oldest first. Streams of one
// user come to the same order, and so share the reviews of a round.
func (s *Sight) oldest(due func(Scope, verdict) bool) []Scope {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var scopes []Scope
	for scope, v := range s.scopes {
		if due(scope, v) {
			scopes = append(scopes, scope)
		}
	}
	slices.SortFunc(scopes, func(a, b Scope) int {
		return cmp.Or(s.scopes[a].asked.Compare(s.scopes[b].asked), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group))
	})
	return scopes
}
