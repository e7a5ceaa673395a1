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

// Scope is a resource in a namespace. An empty Namespace means all namespaces or a cluster-scoped resource.
// Users who are allowed to list it see its objects.
type Scope struct {
	Group, Resource, Namespace string
}

func (s Scope) allNamespaces() Scope { return Scope{Group: s.Group, Resource: s.Resource} }

func (s Scope) attributes() Attributes {
	return Attributes{Verb: "list", Group: s.Group, Resource: s.Resource, Namespace: s.Namespace}
}

// Viewer decides which scopes a user sees. It caches its decisions, because filters call it for every object.
type Viewer struct {
	reviewer *Reviewer
	ctx      context.Context // its end terminates the Viewer
	token    Token           // only set for a stream
	fresh    freshness

	changed chan struct{}
	revoked chan struct{}

	mu         sync.RWMutex
	user       *User
	decisions  map[Scope]decision
	validUntil time.Time // when the review of the token expires
	retryAt    time.Time // before this time Allows does not wait
	err        error     // why the Viewer was terminated
	// pending are scopes without a decision, and deciding means that decidePending runs.
	pending  []Scope
	deciding bool
}

// decision is the result of a review of a scope. A zero time means that the review failed: the scope is
// denied until the next re-check.
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

// ViewerFor returns a Viewer for a single request. It is not re-checked, so it denies everything after
// StaleAfter minus TokenTTL and after the end of ctx. Streams need [Reviewer.StreamViewer].
func (r *Reviewer) ViewerFor(ctx context.Context, user *User) *Viewer {
	o := &r.options
	s := r.newViewer(ctx, user, o.Clock.Now().Add(o.StaleAfter-o.TokenTTL), freshness{o.AccessTTL, o.AccessTTL})
	context.AfterFunc(ctx, func() { s.terminate(context.Cause(ctx)) })
	return s
}

// User returns the user.
func (s *Viewer) User() *User {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.user
}

// Changed receives when decisions have changed, once per batch. The reader then calls Prefetch and sends
// again what it sent with the old decisions. There must be only one reader.
func (s *Viewer) Changed() <-chan struct{} { return s.changed }

// Revoked is closed when the Viewer is terminated. It then denies everything, and Err returns the reason.
func (s *Viewer) Revoked() <-chan struct{} { return s.revoked }

// Err returns nil until the Viewer is terminated. Then the error wraps [ErrInvalidToken], [ErrReviewFailed]
// or the error of the context.
func (s *Viewer) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// Allows reports whether the user is allowed to list the scope. Without a decision it reviews the scope, waits
// for at most DecisionTimeout, and returns false if the review fails.
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

// AllowsCached is Allows without waiting. Without a decision it returns false and reviews the scope
// in the background; [Viewer.Changed] receives if the scope is allowed.
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

// decidePending reviews the pending scopes in batches. The next re-check repeats failed reviews.
func (s *Viewer) decidePending() {
	for {
		s.mu.Lock()
		scopes := s.pending
		s.pending, s.deciding = nil, len(scopes) > 0
		s.mu.Unlock()
		if len(scopes) == 0 {
			return
		}
		_ = s.Prefetch(s.ctx, scopes) // failed scopes stay undecided
	}
}

// Decisions returns the decisions so far.
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

// lookup returns a decision. Only allowed decisions expire: using an old denied decision is safe.
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

// Prefetch decides many scopes at once, so that Allows does not wait. It reviews all namespaces
// first, and single ones only where that was denied. After an error, the scopes without a decision
// are not seen.
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

// undecided returns the distinct scopes without a decision.
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

// reviewScopes reviews the scopes concurrently. It stops at the first error: during an outage of the
// API server, thousands of reviews would time out one after the other.
func (s *Viewer) reviewScopes(ctx context.Context, scopes []Scope) error {
	var changed, answered atomic.Int64
	user := s.User()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.reviewer.options.reviewsPerTenant())
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
		err = reviewFailedError("permissions of "+user.name, accessReviews, ctx.Err())
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) { // canceled by the caller
		s.backOff()
	}
	return fmt.Errorf("%d of %d permission checks completed: %w", answered.Load(), len(scopes), err)
}

// store stores a decision unless there is a newer one, and reports whether the decision has changed.
func (s *Viewer) store(scope Scope, v decision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, asked := s.decisions[scope]
	if s.err != nil || old.reviewedAt.After(v.reviewedAt) {
		return false
	}
	if v.allowed && scope.Namespace == "" {
		// A cluster-wide permission replaces the decisions of single namespaces.
		maps.DeleteFunc(s.decisions, func(other Scope, _ decision) bool { return other.allNamespaces() == scope })
	}
	s.decisions[scope] = v
	return asked && old.allowed != v.allowed
}

// markUndecided records scopes without a decision for the next re-check.
func (s *Viewer) markUndecided(scopes ...Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, scope := range scopes {
		s.markUndecidedLocked(scope)
	}
}

// markUndecidedLocked is markUndecided for callers that hold the lock.
func (s *Viewer) markUndecidedLocked(scope Scope) {
	for _, sc := range []Scope{scope.allNamespaces(), scope} {
		if _, ok := s.decisions[sc]; !ok && s.err == nil {
			s.decisions[sc] = decision{}
		}
	}
}

// backOff prevents that during an outage each call of Allows waits for its timeout.
func (s *Viewer) backOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryAt = s.reviewer.options.Clock.Now().Add(s.reviewer.options.RetryInterval)
}

func (s *Viewer) notifyChanged() {
	select {
	case s.changed <- struct{}{}:
	default: // one unread signal is enough
	}
}

// terminate ends the Viewer. Later calls have no effect.
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
