package access_test

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

	"github.com/holdfast-dev/holdfast/internal/center/access"
)

// grants answers by a list of "resource/namespace"; a namespace left out means all.
func (s *server) grants(granted ...string) {
	s.set(func() {
		s.rights = func(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
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

func pods(namespace string) access.Scope { return access.Scope{Resource: "pods", Namespace: namespace} }

func follow(t *testing.T, r *access.Reviewer) *access.Sight {
	t.Helper()
	s, err := r.Follow(t.Context(), access.NewToken("alices"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeesAsksOnce(t *testing.T) {
	s := newServer(t)
	s.grants("pods/shop")
	r, _ := newReviewer(t, s.config, access.Options{})
	sight := follow(t, r)
	for range 100 {
		if !sight.Sees(pods("shop")) || sight.Sees(pods("other")) || sight.Sees(access.Scope{Resource: "secrets", Namespace: "shop"}) {
			t.Fatal("wrong answer")
		}
	}
	// Two questions for all namespaces and three for single ones.
	if _, rights := s.counts(); rights != 5 {
		t.Errorf("got %d reviews, want 5", rights)
	}
	if closed(sight.Changed()) {
		t.Error("a first answer is no change")
	}
}

func TestFollowNoticesChanges(t *testing.T) {
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
	s := newServer(t)
	s.grants("pods/shop")
	r, clock := newReviewer(t, s.config, access.Options{})
	sight := follow(t, r)
	if err := sight.Prefetch(t.Context(), []access.Scope{pods("shop")}); err != nil {
		t.Fatal(err)
	}
	for i, st := range steps {
		s.grants(st.grants...)
		before, _ := s.counts()
		eventually(t, "the timer of the next round", clock.HasWaiters)
		clock.Step(30 * time.Second)
		eventually(t, "a round", func() bool { n, _ := s.counts(); return n > before && clock.HasWaiters() })
		if got := closed(sight.Changed()); got != st.wantChanged {
			t.Errorf("step %d: changed is %t", i, got)
		}
		if got := sight.Sees(pods("shop")); got != st.wantSees {
			t.Errorf("step %d: sees is %t", i, got)
		}
	}
}

func TestRevoked(t *testing.T) {
	alice := authenticationv1.UserInfo{Username: "alice", UID: "1"}
	cases := map[string]struct {
		then authenticationv1.TokenReviewStatus
		want bool
	}{
		"still valid":       {then: authenticationv1.TokenReviewStatus{Authenticated: true, User: alice}},
		"another group":     {then: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"g"}}}},
		"not valid":         {then: authenticationv1.TokenReviewStatus{}, want: true},
		"another user":      {then: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "bob", UID: "1"}}, want: true},
		"made again, alike": {then: authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "alice", UID: "2"}}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.grants("pods/shop")
			r, clock := newReviewer(t, s.config, access.Options{})
			sight := follow(t, r)
			if !sight.Sees(pods("shop")) {
				t.Fatal("not seen at first")
			}
			s.set(func() { s.token = func(string) authenticationv1.TokenReviewStatus { return tc.then } })
			eventually(t, "the timer of the next round", clock.HasWaiters)
			clock.Step(30 * time.Second)
			eventually(t, "a round", func() bool { return clock.HasWaiters() || closed(sight.Revoked()) })
			if tc.want {
				eventually(t, "Revoked", func() bool { return closed(sight.Revoked()) })
			}
			if got := closed(sight.Revoked()); got != tc.want {
				t.Errorf("revoked is %t, want %t", got, tc.want)
			}
			if got := sight.Sees(pods("shop")); got == tc.want {
				t.Errorf("sees is %t", got)
			}
			if tc.want && (!errors.Is(sight.Err(), access.ErrNotValid) || sight.Prefetch(t.Context(), []access.Scope{pods("a")}) == nil) {
				t.Errorf("got error %v", sight.Err())
			}
		})
	}
}

func TestClosesWhenNobodyAnswers(t *testing.T) {
	breakdowns := map[string]func(*server){
		"everything fails":  func(s *server) { s.down = status(503, "ServiceUnavailable") },
		"nothing answers":   func(s *server) { s.hang = make(chan struct{}) },
		"rights alone fail": func(s *server) { s.down, s.only = status(500, "InternalError"), true },
	}
	for name, breakDown := range breakdowns {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.grants("pods/shop")
			r, clock := newReviewer(t, s.config, access.Options{ReviewTimeout: 100 * time.Millisecond, DecideWithin: 100 * time.Millisecond})
			sight := follow(t, r)
			if !sight.Sees(pods("shop")) {
				t.Fatal("not seen at first")
			}
			s.set(func() { breakDown(s) })
			began := clock.Now()
			for !closed(sight.Revoked()) {
				if clock.Since(began) > 61*time.Second && sight.Sees(pods("shop")) {
					t.Fatalf("seen after %s", clock.Since(began))
				}
				if clock.Since(began) > 90*time.Second {
					t.Fatal("not closed")
				}
				clock.Step(time.Second)
				time.Sleep(20 * time.Millisecond)
			}
			if got := clock.Since(began); got < 45*time.Second {
				t.Errorf("closed after %s: too soon for a restart of the API server", got)
			}
			if !errors.Is(sight.Err(), access.ErrCannotCheck) {
				t.Errorf("got %v", sight.Err())
			}
			if sight.Sees(pods("shop")) {
				t.Error("seen although closed")
			}
		})
	}
}

// Sees looks at the age of an answer itself, and does not rely on a round that may hang.
func TestOldYesIsNoneEvenWhileARoundHangs(t *testing.T) {
	for _, right := range []string{"pods/shop", "pods/"} {
		t.Run(right, func(t *testing.T) {
			s := newServer(t)
			s.grants(right)
			r, clock := newReviewer(t, s.config, access.Options{DecideWithin: 50 * time.Millisecond})
			sight := follow(t, r)
			if !sight.Sees(pods("shop")) {
				t.Fatal("not seen at first")
			}
			s.set(func() { s.down, s.only = status(500, "InternalError"), true })
			tokens, _ := s.counts()
			eventually(t, "the timer of the next round", clock.HasWaiters)
			clock.Step(30 * time.Second)
			eventually(t, "a round that renews the token alone", func() bool { n, _ := s.counts(); return n > tokens && clock.HasWaiters() })
			s.set(func() { s.hang = make(chan struct{}) })
			clock.Step(20 * time.Second)
			eventually(t, "the next round to hang", func() (hangs bool) {
				s.set(func() { hangs = s.hanging > 0 })
				return hangs
			})
			if !sight.Sees(pods("shop")) {
				t.Error("not seen after 50 s")
			}
			clock.Step(11 * time.Second)
			if sight.Sees(pods("shop")) {
				t.Error("seen after 61 s")
			}
			if closed(sight.Revoked()) {
				t.Error("closed already, so this shows nothing")
			}
		})
	}
}

// A stream stays open, so it may not begin with answers that are nearly too old.
func TestStreamsBeginWithYoungAnswers(t *testing.T) {
	s := newServer(t)
	s.grants("pods/shop")
	r, clock := newReviewer(t, s.config, access.Options{})
	token := access.NewToken("alices")
	user, err := r.Authenticate(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	shop := access.Attributes{Verb: "list", Resource: "pods", Namespace: "shop"}
	if yes, err := r.Allowed(t.Context(), user, shop); !yes || err != nil {
		t.Fatalf("got %t, %v", yes, err)
	}
	clock.Step(11 * time.Second)
	s.grants()
	if yes, err := r.Allowed(t.Context(), user, shop); !yes || err != nil {
		t.Fatalf("a single request takes the kept answer: got %t, %v", yes, err)
	}
	if follow(t, r).Sees(pods("shop")) {
		t.Error("the stream took an answer of 11 s")
	}
	s.set(func() {
		s.token = func(string) authenticationv1.TokenReviewStatus { return authenticationv1.TokenReviewStatus{} }
	})
	clock.Step(11 * time.Second)
	if _, err := r.Follow(t.Context(), token); !errors.Is(err, access.ErrNotValid) {
		t.Errorf("the stream took a token that was valid 11 s ago: %v", err)
	}
}

// Whatever fails and whenever: nothing is seen more than 60 s after the right to it ended.
func TestNeverSeenLongerThanTheBound(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			s := newServer(t)
			s.grants("pods/shop")
			r, clock := newReviewer(t, s.config, access.Options{ReviewTimeout: 50 * time.Millisecond, DecideWithin: 50 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sight, err := r.Follow(ctx, access.NewToken("alices"))
			if err != nil {
				t.Fatal(err)
			}
			last := clock.Now() // when the right was last there
			granted := true
			for range 300 {
				switch random.IntN(12) {
				case 0:
					granted = !granted
					if granted {
						s.grants([]string{"pods/shop", "pods/"}[random.IntN(2)])
					} else {
						s.grants()
					}
				case 1:
					s.set(func() { s.down, s.only = status(503, "ServiceUnavailable"), random.IntN(2) == 0 })
				case 2, 3:
					s.set(func() { s.down = nil })
				}
				clock.Step(time.Duration(random.IntN(5000)) * time.Millisecond)
				if granted {
					last = clock.Now()
				}
				if sight.Sees(pods("shop")) && clock.Since(last) > 60*time.Second {
					t.Fatalf("seen %s after the right ended", clock.Since(last))
				}
				if closed(sight.Revoked()) {
					s.set(func() { s.down = nil })
					if sight, err = r.Follow(ctx, access.NewToken("alices")); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func TestSightOfEndsByItself(t *testing.T) {
	s := newServer(t)
	s.grants("pods/")
	r, clock := newReviewer(t, s.config, access.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	user := access.NewUser(authenticationv1.UserInfo{Username: "alice"})
	sight, other := r.SightOf(ctx, user), r.SightOf(ctx, user)
	if !sight.Sees(pods("shop")) || !other.Sees(pods("shop")) {
		t.Fatal("not seen")
	}
	cancel()
	eventually(t, "the end of its context", func() bool { return !sight.Sees(pods("shop")) && closed(sight.Revoked()) })
	third := r.SightOf(t.Context(), user)
	clock.Step(30 * time.Second)
	if third.Sees(pods("shop")) {
		t.Error("seen although nobody checks the token any more")
	}
}

func TestNoesAreRenewedLittleByLittle(t *testing.T) {
	s := newServer(t)
	r, clock := newReviewer(t, s.config, access.Options{NoesPerRound: 10})
	sight := follow(t, r)
	var scopes []access.Scope
	for i := range 100 {
		scopes = append(scopes, pods(fmt.Sprint("ns", i)))
	}
	if err := sight.Prefetch(t.Context(), scopes); err != nil {
		t.Fatal(err)
	}
	_, before := s.counts()
	if before != 101 {
		t.Errorf("got %d reviews at first, want 101", before)
	}
	for range 10 {
		tokens, _ := s.counts()
		eventually(t, "the timer of the next round", clock.HasWaiters)
		clock.Step(30 * time.Second)
		eventually(t, "a round", func() bool { n, _ := s.counts(); return n > tokens && clock.HasWaiters() })
	}
	// Ten rounds of the one for all namespaces and ten others: all hundred had their turn.
	if _, after := s.counts(); after-before != 110 {
		t.Errorf("got %d reviews in ten rounds, want 110", after-before)
	}
}

func TestStreamsOfOneUserShareReviews(t *testing.T) {
	s := newServer(t)
	s.grants("pods/shop")
	r, _ := newReviewer(t, s.config, access.Options{})
	for range 20 {
		if !follow(t, r).Sees(pods("shop")) {
			t.Fatal("not seen")
		}
	}
	if tokens, rights := s.counts(); tokens != 1 || rights != 2 {
		t.Errorf("got %d and %d reviews for 20 streams, want 1 and 2", tokens, rights)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	s := newServer(t)
	s.grants("pods/shop")
	r, _ := newReviewer(t, s.config, access.Options{})
	follow(t, r) // connections of the client are there before it is counted
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var sights []*access.Sight
	for range 50 {
		sight, err := r.Follow(ctx, access.NewToken("alices"))
		if err != nil {
			t.Fatal(err)
		}
		sights = append(sights, sight)
	}
	cancel()
	eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	for _, sight := range sights {
		if !closed(sight.Revoked()) || !errors.Is(sight.Err(), context.Canceled) || sight.Sees(pods("shop")) {
			t.Fatal("a sight outlives its context")
		}
	}
}

func BenchmarkSees(b *testing.B) {
	s := newServer(b)
	s.grants("pods/shop")
	r, err := access.New(s.config, access.Options{})
	if err != nil {
		b.Fatal(err)
	}
	sight, err := r.Follow(b.Context(), access.NewToken("alices"))
	if err != nil {
		b.Fatal(err)
	}
	scope := pods("shop")
	if !sight.Sees(scope) {
		b.Fatal("not seen")
	}
	b.ReportAllocs()
	for b.Loop() {
		sight.Sees(scope)
	}
}

// Glance never waits: what it does not know is decided meanwhile, with few questions, and told.
func TestGlance(t *testing.T) {
	s := newServer(t)
	s.grants("pods/shop")
	r, _ := newReviewer(t, s.config, access.Options{})
	sight := follow(t, r)
	hang := make(chan struct{})
	s.set(func() { s.hang = hang })
	for range 100 { // while the API server does not answer
		if sight.Glance(pods("shop")) || sight.Glance(pods("other")) {
			t.Fatal("seen before it was decided")
		}
	}
	s.set(func() { s.hang = nil })
	close(hang)
	select {
	case <-sight.Changed():
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was told")
	}
	if !sight.Glance(pods("shop")) || sight.Glance(pods("other")) {
		t.Error("not as decided")
	}
	if _, rights := s.counts(); rights != 3 { // everywhere, and each
		t.Errorf("%d questions", rights)
	}
}
