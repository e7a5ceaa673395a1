package authz

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

func (s Scope) allNamespaces() Scope { return Scope{Group: s.Group, Resource: s.Resource} }

func (s Scope) attributes() Attributes {
	return Attributes{Verb: "list", Group: s.Group, Resource: s.Resource, Namespace: s.Namespace}
}

// Viewer is what one user sees. Filters ask it for every object, so what was decided before is
// looked up without asking anybody.
type Viewer struct {
	reviewer *Reviewer
	ctx      context.Context // ends the sight
	token    Token           // none unless it is followed
	fresh    freshness

	changed chan struct{}
	revoked chan struct{}

	mu         sync.RWMutex
	user       *User
	decisions  map[Scope]decision
	validUntil time.Time // from then on the user is not known to be one
	retryAt    time.Time // until then nobody waits for an answer
	err        error     // why it has ended
	// pending are scopes that were glanced at, and deciding says that somebody decides them.
	pending  []Scope
	deciding bool
}

// decision is an answer about a scope. Without a time it is one that could not be had: nobody
// sees the scope, and the next round asks.
type decision struct {
	allowed    bool
	reviewedAt time.Time
}

func (v decision) decided() bool { return !v.reviewedAt.IsZero() }

func (r *Reviewer) newViewer(ctx context.Context, user *User, until time.Time, fresh freshness) *Viewer {
	return &Viewer{
		reviewer: r, ctx: ctx, user: user, validUntil: until, fresh: fresh,
		changed: make(chan struct{}, 1), revoked: make(chan struct{}), decisions: map[Scope]decision{},
	}
}

// ViewerFor returns what a user sees right now, for a request that is answered at once. It is not
// checked again, so it sees nothing after StaleAfter less TokenTTL, nor after the end of ctx.
// A stream needs [Reviewer.Follow].
func (r *Reviewer) ViewerFor(ctx context.Context, user *User) *Viewer {
	o := &r.options
	s := r.newViewer(ctx, user, o.Clock.Now().Add(o.StaleAfter-o.TokenTTL), freshness{o.AccessTTL, o.AccessTTL})
	context.AfterFunc(ctx, func() { s.terminate(context.Cause(ctx)) })
	return s
}

// User returns who it is about.
func (s *Viewer) User() *User {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.user
}

// Changed receives when the answer to a question that was asked before is another one now, once
// for all that changed together. Whoever has sent things by the old answers sends them again,
// after a new Prefetch. It has one reader.
func (s *Viewer) Changed() <-chan struct{} { return s.changed }

// Revoked is closed when the sight has ended: nothing is seen any more, and Err says why.
func (s *Viewer) Revoked() <-chan struct{} { return s.revoked }

// Err is nil until the sight has ended. Then it wraps [ErrInvalidToken], [ErrReviewFailed] or the
// error of the context.
func (s *Viewer) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// Allows tells whether the user may list this. It is quick for scopes that were decided before;
// for another one it asks and waits for at most DecisionTimeout, and says no if there is no answer.
func (s *Viewer) Allows(scope Scope) bool {
	if allowed, decided := s.lookup(scope); decided {
		return allowed
	}
	now := s.reviewer.options.Clock.Now()
	s.mu.RLock()
	wait := !now.Before(s.retryAt)
	s.mu.RUnlock()
	if !wait {
		s.markUndecided(scope)
		return false
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.reviewer.options.DecisionTimeout)
	defer cancel()
	if err := s.Prefetch(ctx, []Scope{scope}); err != nil {
		return false
	}
	allowed, _ := s.lookup(scope)
	return allowed
}

// AllowsCached is Sees for who must not wait. Of what is not decided yet it says no and has it decided
// in the background; [Sight.Changed] tells when the answer is yes.
func (s *Viewer) AllowsCached(scope Scope) bool {
	if allowed, decided := s.lookup(scope); decided {
		return allowed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, asked := s.decisions[scope]; asked || s.err != nil {
		return false
	}
	s.markUndecidedLocked(scope)
	s.pending = append(s.pending, scope)
	if !s.deciding {
		s.deciding = true
		go s.decidePending()
	}
	return false
}

// decidePending asks about what was glanced at, all that came together at once. What fails is asked
// again in the next round.
func (s *Viewer) decidePending() {
	for {
		s.mu.Lock()
		scopes := s.pending
		s.pending, s.deciding = nil, len(scopes) > 0
		s.mu.Unlock()
		if len(scopes) == 0 {
			return
		}
		_ = s.Prefetch(s.ctx, scopes) // it has noted what it could not decide
	}
}

// Decisions are what was decided so far.
func (s *Viewer) Decisions() map[Scope]bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[Scope]bool, len(s.decisions))
	for scope, v := range s.decisions {
		if v.decided() {
			out[scope] = v.allowed
		}
	}
	return out
}

// lookup looks up what was decided. A yes that is too old is not known any more; a no stays,
// because it shows nothing.
func (s *Viewer) lookup(scope Scope) (allowed, decided bool) {
	now := s.reviewer.options.Clock.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.err != nil || !now.Before(s.validUntil) {
		return false, true
	}
	stale := s.reviewer.options.StaleAfter
	if clusterWide := s.decisions[scope.allNamespaces()]; clusterWide.allowed && now.Sub(clusterWide.reviewedAt) < stale {
		return true, true
	}
	v := s.decisions[scope]
	if v.allowed && now.Sub(v.reviewedAt) >= stale {
		return false, false
	}
	return v.allowed, v.decided()
}

// Prefetch decides many scopes at once, so that Sees does not have to wait. It asks for all
// namespaces first, and for single ones only where the answer was no. With an error, scopes
// without an answer are not seen; those with one are.
func (s *Viewer) Prefetch(ctx context.Context, scopes []Scope) error {
	if err := s.Err(); err != nil {
		return err
	}
	clusterWide := s.undecided(scopes, Scope.allNamespaces)
	if err := s.reviewScopes(ctx, clusterWide); err != nil {
		s.markUndecided(scopes...)
		return err
	}
	if err := s.reviewScopes(ctx, s.undecided(scopes, func(sc Scope) Scope { return sc })); err != nil {
		s.markUndecided(scopes...)
		return err
	}
	return s.Err()
}

// undecided returns the distinct scopes that still have to be asked about.
func (s *Viewer) undecided(scopes []Scope, key func(Scope) Scope) []Scope {
	var missing []Scope
	found := map[Scope]bool{}
	for _, scope := range scopes {
		if _, decided := s.lookup(scope); decided {
			continue
		}
		scope = key(scope)
		if _, decided := s.lookup(scope); !decided && !found[scope] {
			found[scope] = true
			missing = append(missing, scope)
		}
	}
	return missing
}

// reviewScopes reviews these scopes, several at once, and takes the answers as they come. It stops at the
// first that fails: when the API server is away, thousands would wait for nothing.
func (s *Viewer) reviewScopes(ctx context.Context, scopes []Scope) error {
	var changed, answered atomic.Int64
	user := s.User()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, s.reviewer.options.MaxConcurrentReviews/2))
	for _, scope := range scopes {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			got, err := s.reviewer.cachedReview(ctx, user, scope.attributes(), s.fresh)
			if err != nil {
				return err
			}
			answered.Add(1)
			if s.store(scope, decision{got.allowed, got.reviewedAt}) {
				changed.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	if changed.Load() > 0 {
		s.notifyChanged()
	}
	if err == nil && int(answered.Load()) < len(scopes) {
		err = reviewFailedError("what "+user.name+" sees", accessReviews, ctx.Err())
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) { // then it is the caller who did not wait
		s.backOff()
	}
	return fmt.Errorf("%d of %d scopes decided: %w", answered.Load(), len(scopes), err)
}

// store keeps a verdict, unless a newer one is there, and tells whether somebody was told
// otherwise before.
func (s *Viewer) store(scope Scope, v decision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, asked := s.decisions[scope]
	if s.err != nil || old.reviewedAt.After(v.reviewedAt) {
		return false
	}
	if v.allowed && scope.Namespace == "" {
		// It answers for every namespace from now on.
		maps.DeleteFunc(s.decisions, func(other Scope, _ decision) bool { return other.allNamespaces() == scope })
	}
	s.decisions[scope] = v
	return asked && old.allowed != v.allowed
}

// markUndecided remembers scopes that nobody could decide, for the next round.
func (s *Viewer) markUndecided(scopes ...Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, scope := range scopes {
		s.markUndecidedLocked(scope)
	}
}

// markUndecidedLocked is want for who holds the lock.
func (s *Viewer) markUndecidedLocked(scope Scope) {
	for _, sc := range []Scope{scope.allNamespaces(), scope} {
		if _, ok := s.decisions[sc]; !ok && s.err == nil {
			s.decisions[sc] = decision{}
		}
	}
}

// backOff keeps the next frames from waiting, each in turn, for an API server that is away.
func (s *Viewer) backOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryAt = s.reviewer.options.Clock.Now().Add(s.reviewer.options.RetryInterval)
}

func (s *Viewer) notifyChanged() {
	select {
	case s.changed <- struct{}{}:
	default: // not read yet: one is enough
	}
}

// terminate closes the sight, once.
func (s *Viewer) terminate(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.err = cause; cause == nil {
		s.err = ErrReviewFailed
	}
	s.decisions = nil
	close(s.revoked)
}
