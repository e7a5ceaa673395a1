package authz_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

// grant allows a list of "resource/namespace". An empty namespace means all namespaces.
func (s *fakeAPIServer) grant(granted ...string) {
	s.set(func() {
		s.reviewAccess = func(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			a := spec.ResourceAttributes
			for _, g := range granted {
				if spec.User == "alice" && a.Verb == "list" && (g == a.Resource+"/"+a.Namespace || g == a.Resource+"/") {
					return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
				}
			}
			return authorizationv1.SubjectAccessReviewStatus{}
		}
	})
}

func pods(namespace string) authz.Scope { return authz.Scope{Resource: "pods", Namespace: namespace} }

func newStreamViewer(t *testing.T, r *authz.Reviewer) *authz.Viewer {
	t.Helper()
	s, err := r.StreamViewer(t.Context(), authz.NewToken("alices"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAllowsReviewsEachScopeOnce(t *testing.T) {
	s := newFakeAPIServer(t)
	s.grant("pods/shop")
	r, _ := newReviewer(t, s.config, authz.Options{})
	viewer := newStreamViewer(t, r)
	for range 100 {
		if !viewer.Allows(pods("shop")) || viewer.Allows(pods("other")) || viewer.Allows(authz.Scope{Resource: "secrets", Namespace: "shop"}) {
			t.Fatal("wrong answer")
		}
	}
	// Two cluster-wide reviews and three reviews of single namespaces.
	if _, rights := s.counts(); rights != 5 {
		t.Errorf("got %d reviews, want 5", rights)
	}
	if signaled(viewer.Changed()) {
		t.Error("the first decision counts as a change")
	}
}

func TestStreamViewerNoticesAccessChanges(t *testing.T) {
	type step struct {
		grants      []string
		wantChanged bool
		wantSees    bool
	}
	steps := []step{
		{grants: []string{"pods/shop"}, wantSees: true},
		{grants: nil, wantChanged: true},
		{grants: []string{"pods/shop"}, wantChanged: true, wantSees: true},
		{grants: []string{"pods/"}, wantChanged: true, wantSees: true},
		{grants: []string{"pods/", "pods/shop"}, wantSees: true},
		{grants: []string{"pods/other"}, wantChanged: true},
	}
	s := newFakeAPIServer(t)
	s.grant("pods/shop")
	r, clock := newReviewer(t, s.config, authz.Options{})
	viewer := newStreamViewer(t, r)
	if err := viewer.Prefetch(t.Context(), []authz.Scope{pods("shop")}); err != nil {
		t.Fatal(err)
	}
	for i, st := range steps {
		s.grant(st.grants...)
		before, _ := s.counts()
		eventually(t, "the timer of the next re-check", clock.HasWaiters)
		clock.Step(30 * time.Second)
		eventually(t, "a round", func() bool { n, _ := s.counts(); return n > before && clock.HasWaiters() })
		if got := signaled(viewer.Changed()); got != st.wantChanged {
			t.Errorf("step %d: changed: got %t", i, got)
		}
		if got := viewer.Allows(pods("shop")); got != st.wantSees {
			t.Errorf("step %d: allowed: got %t", i, got)
		}
	}
}

func TestViewerEndsWhenTokenIsRevoked(t *testing.T) {
	alice := authenticationv1.UserInfo{Username: "alice", UID: "1"}
	cases := map[string]struct {
		then authenticationv1.TokenReviewStatus
		want bool
	}{
		"still valid": {then: authenticationv1.TokenReviewStatus{Authenticated: true, User: alice}},
		"different group": {then: authenticationv1.TokenReviewStatus{Authenticated: true,
			User: authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"g"}}}},
		"invalid": {then: authenticationv1.TokenReviewStatus{}, want: true},
		"different user": {then: authenticationv1.TokenReviewStatus{Authenticated: true,
			User: authenticationv1.UserInfo{Username: "bob", UID: "1"}}, want: true},
		"recreated with the same name": {then: authenticationv1.TokenReviewStatus{Authenticated: true,
			User: authenticationv1.UserInfo{Username: "alice", UID: "2"}}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPIServer(t)
			s.grant("pods/shop")
			r, clock := newReviewer(t, s.config, authz.Options{})
			viewer := newStreamViewer(t, r)
			if !viewer.Allows(pods("shop")) {
				t.Fatal("denied at first")
			}
			s.set(func() { s.reviewToken = func(string) authenticationv1.TokenReviewStatus { return tc.then } })
			eventually(t, "the timer of the next re-check", clock.HasWaiters)
			clock.Step(30 * time.Second)
			eventually(t, "a round", func() bool { return clock.HasWaiters() || signaled(viewer.Revoked()) })
			if tc.want {
				eventually(t, "Revoked", func() bool { return signaled(viewer.Revoked()) })
			}
			if got := signaled(viewer.Revoked()); got != tc.want {
				t.Errorf("revoked: got %t, want %t", got, tc.want)
			}
			if got := viewer.Allows(pods("shop")); got == tc.want {
				t.Errorf("allowed: got %t", got)
			}
			if tc.want && (!errors.Is(viewer.Err(), authz.ErrInvalidToken) || viewer.Prefetch(t.Context(), []authz.Scope{pods("a")}) == nil) {
				t.Errorf("got error %v", viewer.Err())
			}
		})
	}
}

func TestViewerEndsWhenReviewsFail(t *testing.T) {
	breakdowns := map[string]func(*fakeAPIServer){
		"all reviews fail":    func(s *fakeAPIServer) { s.down = apiStatus(503, "ServiceUnavailable") },
		"no response":         func(s *fakeAPIServer) { s.hang = make(chan struct{}) },
		"access reviews fail": func(s *fakeAPIServer) { s.down, s.accessReviewsOnly = apiStatus(500, "InternalError"), true },
	}
	for name, breakDown := range breakdowns {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPIServer(t)
			s.grant("pods/shop")
			r, clock := newReviewer(t, s.config, authz.Options{ReviewTimeout: 100 * time.Millisecond, DecisionTimeout: 100 * time.Millisecond})
			viewer := newStreamViewer(t, r)
			if !viewer.Allows(pods("shop")) {
				t.Fatal("denied at first")
			}
			s.set(func() { breakDown(s) })
			began := clock.Now()
			for !signaled(viewer.Revoked()) {
				if clock.Since(began) > 61*time.Second && viewer.Allows(pods("shop")) {
					t.Fatalf("allowed after %s", clock.Since(began))
				}
				if clock.Since(began) > 90*time.Second {
					t.Fatal("not closed")
				}
				clock.Step(time.Second)
				time.Sleep(20 * time.Millisecond) // requests to the API server take real time
			}
			if got := clock.Since(began); got < 45*time.Second {
				t.Errorf("closed after %s: does not tolerate a restart of the API server", got)
			}
			if !errors.Is(viewer.Err(), authz.ErrReviewFailed) {
				t.Errorf("got %v", viewer.Err())
			}
			if viewer.Allows(pods("shop")) {
				t.Error("allowed although closed")
			}
		})
	}
}

// Allows checks the age of a decision and does not rely on a re-check, which may hang.
func TestStaleAccessExpiresWhileRecheckHangs(t *testing.T) {
	for _, right := range []string{"pods/shop", "pods/"} {
		t.Run(right, func(t *testing.T) {
			s := newFakeAPIServer(t)
			s.grant(right)
			r, clock := newReviewer(t, s.config, authz.Options{DecisionTimeout: 50 * time.Millisecond})
			viewer := newStreamViewer(t, r)
			if !viewer.Allows(pods("shop")) {
				t.Fatal("denied at first")
			}
			s.set(func() { s.down, s.accessReviewsOnly = apiStatus(500, "InternalError"), true })
			tokens, _ := s.counts()
			eventually(t, "the timer of the next re-check", clock.HasWaiters)
			clock.Step(30 * time.Second)
			eventually(t, "a re-check that renews only the token", func() bool { n, _ := s.counts(); return n > tokens && clock.HasWaiters() })
			s.set(func() { s.hang = make(chan struct{}) })
			clock.Step(20 * time.Second)
			eventually(t, "the next re-check to hang", func() (hangs bool) {
				s.set(func() { hangs = s.hanging > 0 })
				return hangs
			})
			if !viewer.Allows(pods("shop")) {
				t.Error("denied after 50 s")
			}
			clock.Step(11 * time.Second)
			if viewer.Allows(pods("shop")) {
				t.Error("allowed after 61 s")
			}
			if signaled(viewer.Revoked()) {
				t.Error("already closed, so the test is not meaningful")
			}
		})
	}
}

// A stream stays open, so it must not start with reviews that are almost expired.
func TestStreamViewerRequiresFreshReviews(t *testing.T) {
	s := newFakeAPIServer(t)
	s.grant("pods/shop")
	r, clock := newReviewer(t, s.config, authz.Options{})
	token := authz.NewToken("alices")
	user, err := r.Authenticate(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	shop := authz.Attributes{Verb: "list", Resource: "pods", Namespace: "shop"}
	if yes, err := r.Allowed(t.Context(), user, shop); !yes || err != nil {
		t.Fatalf("got %t, %v", yes, err)
	}
	clock.Step(11 * time.Second)
	s.grant()
	if yes, err := r.Allowed(t.Context(), user, shop); !yes || err != nil {
		t.Fatalf("a single request does not use the cached review: got %t, %v", yes, err)
	}
	if newStreamViewer(t, r).Allows(pods("shop")) {
		t.Error("the stream used a review of 11 s")
	}
	s.set(func() {
		s.reviewToken = func(string) authenticationv1.TokenReviewStatus { return authenticationv1.TokenReviewStatus{} }
	})
	clock.Step(11 * time.Second)
	if _, err := r.StreamViewer(t.Context(), token); !errors.Is(err, authz.ErrInvalidToken) {
		t.Errorf("the stream used a token review of 11 s: %v", err)
	}
}

// No failure extends access beyond 60 s after the permission was revoked.
func TestAccessNeverOutlivesStaleAfter(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			s := newFakeAPIServer(t)
			s.grant("pods/shop")
			r, clock := newReviewer(t, s.config, authz.Options{ReviewTimeout: 50 * time.Millisecond, DecisionTimeout: 50 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			viewer, err := r.StreamViewer(ctx, authz.NewToken("alices"))
			if err != nil {
				t.Fatal(err)
			}
			last := clock.Now() // the last time with the permission
			granted := true
			for range 300 {
				switch rng.IntN(12) {
				case 0:
					granted = !granted
					if granted {
						s.grant([]string{"pods/shop", "pods/"}[rng.IntN(2)])
					} else {
						s.grant()
					}
				case 1:
					s.set(func() { s.down, s.accessReviewsOnly = apiStatus(503, "ServiceUnavailable"), rng.IntN(2) == 0 })
				case 2, 3:
					s.set(func() { s.down = nil })
				}
				clock.Step(time.Duration(rng.IntN(5000)) * time.Millisecond)
				if granted {
					last = clock.Now()
				}
				if viewer.Allows(pods("shop")) && clock.Since(last) > 60*time.Second {
					t.Fatalf("allowed %s after the permission was revoked", clock.Since(last))
				}
				if signaled(viewer.Revoked()) {
					s.set(func() { s.down = nil })
					if viewer, err = r.StreamViewer(ctx, authz.NewToken("alices")); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestViewerForExpires(t *testing.T) {
	s := newFakeAPIServer(t)
	s.grant("pods/")
	r, clock := newReviewer(t, s.config, authz.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	user := authz.NewUser(authenticationv1.UserInfo{Username: "alice"})
	viewer, other := r.ViewerFor(ctx, user), r.ViewerFor(ctx, user)
	if !viewer.Allows(pods("shop")) || !other.Allows(pods("shop")) {
		t.Fatal("not seen")
	}
	cancel()
	eventually(t, "the end of its context", func() bool { return !viewer.Allows(pods("shop")) && signaled(viewer.Revoked()) })
	third := r.ViewerFor(t.Context(), user)
	clock.Step(30 * time.Second)
	if third.Allows(pods("shop")) {
		t.Error("allowed although the token is no longer reviewed")
	}
}

func TestDeniedScopesAreRecheckedInBatches(t *testing.T) {
	s := newFakeAPIServer(t)
	r, clock := newReviewer(t, s.config, authz.Options{DeniedPerRecheck: 10})
	viewer := newStreamViewer(t, r)
	var scopes []authz.Scope
	for i := range 100 {
		scopes = append(scopes, pods(fmt.Sprint("ns", i)))
	}
	if err := viewer.Prefetch(t.Context(), scopes); err != nil {
		t.Fatal(err)
	}
	_, before := s.counts()
	if before != 101 {
		t.Errorf("got %d reviews at first, want 101", before)
	}
	for range 10 {
		tokens, _ := s.counts()
		eventually(t, "the timer of the next re-check", clock.HasWaiters)
		clock.Step(30 * time.Second)
		eventually(t, "a round", func() bool { n, _ := s.counts(); return n > tokens && clock.HasWaiters() })
	}
	// Ten re-checks of the cluster-wide scope and ten others: all hundred scopes were reviewed.
	if _, after := s.counts(); after-before != 110 {
		t.Errorf("got %d reviews in ten re-checks, want 110", after-before)
	}
}

func TestStreamsOfOneUserShareReviews(t *testing.T) {
	s := newFakeAPIServer(t)
	s.grant("pods/shop")
	r, _ := newReviewer(t, s.config, authz.Options{})
	for range 20 {
		if !newStreamViewer(t, r).Allows(pods("shop")) {
			t.Fatal("not seen")
		}
	}
	if tokens, rights := s.counts(); tokens != 1 || rights != 2 {
		t.Errorf("got %d and %d reviews for 20 streams, want 1 and 2", tokens, rights)
	}
}

func TestViewersLeaveNoGoroutines(t *testing.T) {
	s := newFakeAPIServer(t)
	s.grant("pods/shop")
	r, _ := newReviewer(t, s.config, authz.Options{})
	newStreamViewer(t, r) // opens the client connections before goroutines are counted
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var viewers []*authz.Viewer
	for range 50 {
		viewer, err := r.StreamViewer(ctx, authz.NewToken("alices"))
		if err != nil {
			t.Fatal(err)
		}
		viewers = append(viewers, viewer)
	}
	cancel()
	eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	for _, viewer := range viewers {
		if !signaled(viewer.Revoked()) || !errors.Is(viewer.Err(), context.Canceled) || viewer.Allows(pods("shop")) {
			t.Fatal("a viewer outlives its context")
		}
	}
}

func BenchmarkAllows(b *testing.B) {
	s := newFakeAPIServer(b)
	s.grant("pods/shop")
	r, err := authz.New(s.config, authz.Options{})
	if err != nil {
		b.Fatal(err)
	}
	viewer, err := r.StreamViewer(b.Context(), authz.NewToken("alices"))
	if err != nil {
		b.Fatal(err)
	}
	scope := pods("shop")
	if !viewer.Allows(scope) {
		b.Fatal("not seen")
	}
	b.ReportAllocs()
	for b.Loop() {
		viewer.Allows(scope)
	}
}

// AllowsCached never blocks: a scope without a decision is reviewed in the background, and Changed receives.
func TestAllowsCachedNeverBlocks(t *testing.T) {
	s := newFakeAPIServer(t)
	s.grant("pods/shop")
	r, _ := newReviewer(t, s.config, authz.Options{})
	viewer := newStreamViewer(t, r)
	hang := make(chan struct{})
	s.set(func() { s.hang = hang })
	for range 100 { // while the API server does not respond
		if viewer.AllowsCached(pods("shop")) || viewer.AllowsCached(pods("other")) {
			t.Fatal("allowed before it was decided")
		}
	}
	s.set(func() { s.hang = nil })
	close(hang)
	select {
	case <-viewer.Changed():
	case <-time.After(10 * time.Second):
		t.Fatal("Changed did not receive")
	}
	if !viewer.AllowsCached(pods("shop")) || viewer.AllowsCached(pods("other")) {
		t.Error("the decision was not applied")
	}
	if _, rights := s.counts(); rights != 3 { // one cluster-wide and two single scopes
		t.Errorf("%d questions", rights)
	}
}
