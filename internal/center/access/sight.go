package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Scope is a resource in a namespace; an empty Namespace means all namespaces, or a resource
// that is in none. Who may list it sees it.
type Scope struct {
	Group, Resource, Namespace string
}

func (s Scope) everywhere() Scope { return Scope{Group: s.Group, Resource: s.Resource} }

func (s Scope) attributes() Attributes {
	return Attributes{Verb: "list", Group: s.Group, Resource: s.Resource, Namespace: s.Namespace}
}

// Sight is what one user sees. Filters ask it for every object, so what was decided before is
// looked up without asking anybody.
type Sight struct {
	reviewer *Reviewer
	ctx      context.Context // ends the sight
	token    Token           // none unless it is followed
	fresh    freshness

	changed chan struct{}
	revoked chan struct{}

	mu      sync.RWMutex
	user    *User
	scopes  map[Scope]verdict
	until   time.Time // from then on the user is not known to be one
	retryAt time.Time // until then nobody waits for an answer
	err     error     // why it has ended
	// later are scopes that were glanced at, and deciding says that somebody decides them.
	later    []Scope
	deciding bool
}

// verdict is an answer about a scope. Without a time it is one that could not be had: nobody
// sees the scope, and the next round asks.
type verdict struct {
	yes   bool
	asked time.Time
}

func (v verdict) decided() bool { return !v.asked.IsZero() }

func (r *Reviewer) newSight(ctx context.Context, user *User, until time.Time, fresh freshness) *Sight {
	return &Sight{
		reviewer: r, ctx: ctx, user: user, until: until, fresh: fresh,
		changed: make(chan struct{}, 1), revoked: make(chan struct{}), scopes: map[Scope]verdict{},
	}
}

// SightOf returns what a user sees right now, for a request that is answered at once. It is not
// checked again, so it sees nothing after StaleAfter less ValidFor, nor after the end of ctx.
// A stream needs [Reviewer.Follow].
func (r *Reviewer) SightOf(ctx context.Context, user *User) *Sight {
	o := &r.options
	s := r.newSight(ctx, user, o.Clock.Now().Add(o.StaleAfter-o.ValidFor), freshness{o.AllowedFor, o.AllowedFor})
	context.AfterFunc(ctx, func() { s.end(context.Cause(ctx)) })
	return s
}

// User returns who it is about.
func (s *Sight) User() *User {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.user
}

// Changed receives when the answer to a question that was asked before is another one now, once
// for all that changed together. Whoever has sent things by the old answers sends them again,
// after a new Prefetch. It has one reader.
func (s *Sight) Changed() <-chan struct{} { return s.changed }

// Revoked is closed when the sight has ended: nothing is seen any more, and Err says why.
func (s *Sight) Revoked() <-chan struct{} { return s.revoked }

// Err is nil until the sight has ended. Then it wraps [ErrNotValid], [ErrCannotCheck] or the
// error of the context.
func (s *Sight) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// Sees tells whether the user may list this. It is quick for scopes that were decided before;
// for another one it asks and waits for at most DecideWithin, and says no if there is no answer.
func (s *Sight) Sees(scope Scope) bool {
	if yes, decided := s.known(scope); decided {
		return yes
	}
	now := s.reviewer.options.Clock.Now()
	s.mu.RLock()
	wait := !now.Before(s.retryAt)
	s.mu.RUnlock()
	if !wait {
		s.want(scope)
		return false
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.reviewer.options.DecideWithin)
	defer cancel()
	if err := s.Prefetch(ctx, []Scope{scope}); err != nil {
		return false
	}
	yes, _ := s.known(scope)
	return yes
}

// Glance is Sees for who must not wait. Of what is not decided yet it says no and has it decided
// in the background; [Sight.Changed] tells when the answer is yes.
func (s *Sight) Glance(scope Scope) bool {
	if yes, decided := s.known(scope); decided {
		return yes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, asked := s.scopes[scope]; asked || s.err != nil {
		return false
	}
	s.note(scope)
	s.later = append(s.later, scope)
	if !s.deciding {
		s.deciding = true
		go s.decide()
	}
	return false
}

// decide asks about what was glanced at, all that came together at once. What fails is asked
// again in the next round.
func (s *Sight) decide() {
	for {
		s.mu.Lock()
		scopes := s.later
		s.later, s.deciding = nil, len(scopes) > 0
		s.mu.Unlock()
		if len(scopes) == 0 {
			return
		}
		_ = s.Prefetch(s.ctx, scopes) // it has noted what it could not decide
	}
}

// Verdicts are what was decided so far.
func (s *Sight) Verdicts() map[Scope]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[Scope]bool, len(s.scopes))
	for scope, v := range s.scopes {
		if v.decided() {
			out[scope] = v.yes
		}
	}
	return out
}

// known looks up what was decided. A yes that is too old is not known any more; a no stays,
// because it shows nothing.
func (s *Sight) known(scope Scope) (yes, decided bool) {
	now := s.reviewer.options.Clock.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.err != nil || !now.Before(s.until) {
		return false, true
	}
	stale := s.reviewer.options.StaleAfter
	if wide := s.scopes[scope.everywhere()]; wide.yes && now.Sub(wide.asked) < stale {
		return true, true
	}
	v := s.scopes[scope]
	if v.yes && now.Sub(v.asked) >= stale {
		return false, false
	}
	return v.yes, v.decided()
}

// Prefetch decides many scopes at once, so that Sees does not have to wait. It asks for all
// namespaces first, and for single ones only where the answer was no. With an error, scopes
// without an answer are not seen; those with one are.
func (s *Sight) Prefetch(ctx context.Context, scopes []Scope) error {
	if err := s.Err(); err != nil {
		return err
	}
	wide := s.undecided(scopes, Scope.everywhere)
	if err := s.ask(ctx, wide); err != nil {
		s.want(scopes...)
		return err
	}
	if err := s.ask(ctx, s.undecided(scopes, func(sc Scope) Scope { return sc })); err != nil {
		s.want(scopes...)
		return err
	}
	return s.Err()
}

// undecided returns the distinct scopes that still have to be asked about.
func (s *Sight) undecided(scopes []Scope, of func(Scope) Scope) []Scope {
	var missing []Scope
	found := map[Scope]bool{}
	for _, scope := range scopes {
		if _, decided := s.known(scope); decided {
			continue
		}
		scope = of(scope)
		if _, decided := s.known(scope); !decided && !found[scope] {
			found[scope] = true
			missing = append(missing, scope)
		}
	}
	return missing
}

// ask reviews these scopes, several at once, and takes the answers as they come. It stops at the
// first that fails: when the API server is away, thousands would wait for nothing.
func (s *Sight) ask(ctx context.Context, scopes []Scope) error {
	var flips, answered atomic.Int64
	user := s.User()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, s.reviewer.options.Parallel/2))
	for _, scope := range scopes {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			got, err := s.reviewer.allowed(ctx, user, scope.attributes(), s.fresh)
			if err != nil {
				return err
			}
			answered.Add(1)
			if s.take(scope, verdict{got.yes, got.asked}) {
				flips.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	if flips.Load() > 0 {
		s.notify()
	}
	if err == nil && int(answered.Load()) < len(scopes) {
		err = cannotCheck("what "+user.name+" sees", accessReviews, ctx.Err())
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) { // then it is the caller who did not wait
		s.backOff()
	}
	return fmt.Errorf("%d of %d scopes decided: %w", answered.Load(), len(scopes), err)
}

// take keeps a verdict, unless a newer one is there, and tells whether somebody was told
// otherwise before.
func (s *Sight) take(scope Scope, v verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, asked := s.scopes[scope]
	if s.err != nil || old.asked.After(v.asked) {
		return false
	}
	if v.yes && scope.Namespace == "" {
		// It answers for every namespace from now on.
		maps.DeleteFunc(s.scopes, func(other Scope, _ verdict) bool { return other.everywhere() == scope })
	}
	s.scopes[scope] = v
	return asked && old.yes != v.yes
}

// want remembers scopes that nobody could decide, for the next round.
func (s *Sight) want(scopes ...Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, scope := range scopes {
		s.note(scope)
	}
}

// note is want for who holds the lock.
func (s *Sight) note(scope Scope) {
	for _, sc := range []Scope{scope.everywhere(), scope} {
		if _, ok := s.scopes[sc]; !ok && s.err == nil {
			s.scopes[sc] = verdict{}
		}
	}
}

// backOff keeps the next frames from waiting, each in turn, for an API server that is away.
func (s *Sight) backOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryAt = s.reviewer.options.Clock.Now().Add(s.reviewer.options.RetryEvery)
}

func (s *Sight) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // not read yet: one is enough
	}
}

// end closes the sight, once.
func (s *Sight) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.err = why; why == nil {
		s.err = ErrCannotCheck
	}
	s.scopes = nil
	close(s.revoked)
}
