package authz_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

func TestAuthenticateRejectsDoubtfulTokenReviews(t *testing.T) {
	alice := authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	cases := map[string]struct {
		status    authenticationv1.TokenReviewStatus
		audiences []string
		want      string // empty: the user is alice
	}{
		"accepted":               {status: authenticationv1.TokenReviewStatus{Authenticated: true, User: alice}},
		"accepted with an error": {status: authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Error: "webhook"}},
		"rejected":               {status: authenticationv1.TokenReviewStatus{User: alice}, want: "does not accept it"},
		"expired":                {status: authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, service account token has expired]"}, want: "has expired"},
		"no user name":           {status: authenticationv1.TokenReviewStatus{Authenticated: true}, want: "no authenticated user"},
		"anonymous": {status: authenticationv1.TokenReviewStatus{
			Authenticated: true, User: authenticationv1.UserInfo{Username: "system:anonymous"},
		}, want: "no authenticated user"},
		"group system:unauthenticated": {status: authenticationv1.TokenReviewStatus{
			Authenticated: true, User: authenticationv1.UserInfo{Username: "x", Groups: []string{"system:unauthenticated"}},
		}, want: "no authenticated user"},
		"accepted audience": {
			status:    authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Audiences: []string{"center"}},
			audiences: []string{"other", "center"},
		},
		"other audience": {
			status:    authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Audiences: []string{"vault"}},
			audiences: []string{"center"}, want: "its audience is not center",
		},
		"no audience": {
			status:    authenticationv1.TokenReviewStatus{Authenticated: true, User: alice},
			audiences: []string{"center"}, want: "its audience is not center",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPIServer(t)
			s.reviewToken = func(string) authenticationv1.TokenReviewStatus { return tc.status }
			r, _ := newReviewer(t, s.config, authz.Options{Audiences: tc.audiences})
			user, err := r.Authenticate(t.Context(), authz.NewToken("abc"))
			if tc.want == "" {
				if err != nil || user.Name() != "alice" {
					t.Fatalf("got %v, %v", user, err)
				}
				return
			}
			if user != nil || !errors.Is(err, authz.ErrInvalidToken) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v; want ErrInvalidToken with %q", user, err, tc.want)
			}
		})
	}
}

func TestFailedReviewsAreErrorsAndNotCached(t *testing.T) {
	cases := map[string]struct {
		down *metav1.Status
		want string
	}{
		"broken":       {apiStatus(500, metav1.StatusReasonInternalError), "InternalError"},
		"unavailable":  {apiStatus(503, metav1.StatusReasonServiceUnavailable), "ServiceUnavailable"},
		"invalid":      {apiStatus(422, metav1.StatusReasonInvalid), "Invalid"},
		"forbidden":    {apiStatus(403, metav1.StatusReasonForbidden), "system:auth-delegator"},
		"unauthorized": {apiStatus(401, metav1.StatusReasonUnauthorized), "system:auth-delegator"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPIServer(t)
			s.reviewAccess = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
				return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
			}
			s.down = tc.down
			r, _ := newReviewer(t, s.config, authz.Options{})
			for range 2 {
				user, err := r.Authenticate(t.Context(), authz.NewToken("abc"))
				if user != nil || !errors.Is(err, authz.ErrReviewFailed) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, %v; want ErrReviewFailed with %q", user, err, tc.want)
				}
				alice := authz.NewUser(authenticationv1.UserInfo{Username: "alice"})
				yes, err := r.Allowed(t.Context(), alice, authz.Attributes{Verb: "list", Resource: "pods", Namespace: "shop"})
				if yes || !errors.Is(err, authz.ErrReviewFailed) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %t, %v; want no and ErrReviewFailed with %q", yes, err, tc.want)
				}
				if !strings.Contains(err.Error(), "permission of alice to list pods") {
					t.Errorf("the error does not contain the permission: %v", err)
				}
			}
			if tokens, rights := s.counts(); tokens != 2 || rights != 2 {
				t.Errorf("got %d and %d reviews: an error was cached, or a review was repeated", tokens, rights)
			}
			if got := r.Stats(); got.Errors != 4 || got.Cached != 0 {
				t.Errorf("got %+v", got)
			}
			s.set(func() { s.down = nil })
			if _, err := r.Authenticate(t.Context(), authz.NewToken("abc")); err != nil {
				t.Errorf("after recovery: %v", err)
			}
		})
	}
}

func TestDeniedOverridesAllowed(t *testing.T) {
	s := newFakeAPIServer(t)
	s.reviewAccess = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}
	}
	r, _ := newReviewer(t, s.config, authz.Options{})
	alice := authz.NewUser(authenticationv1.UserInfo{Username: "alice"})
	if yes, err := r.Allowed(t.Context(), alice, authz.Attributes{Verb: "list", Resource: "pods"}); yes || err != nil {
		t.Errorf("got %t, %v", yes, err)
	}
}

func TestIncompleteRequestsAreRejected(t *testing.T) {
	s := newFakeAPIServer(t)
	s.reviewAccess = func(authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	r, _ := newReviewer(t, s.config, authz.Options{})
	alice := authz.NewUser(authenticationv1.UserInfo{Username: "alice"})
	if yes, err := r.Allowed(t.Context(), nil, authz.Attributes{Verb: "list", Resource: "pods"}); yes || !errors.Is(err, authz.ErrNoToken) {
		t.Errorf("no user: got %t, %v", yes, err)
	}
	for _, a := range []authz.Attributes{{}, {Verb: "list"}, {Resource: "pods"}} {
		if yes, err := r.Allowed(t.Context(), alice, a); yes || !errors.Is(err, authz.ErrReviewFailed) {
			t.Errorf("%+v: got %t, %v", a, yes, err)
		}
	}
	if _, err := r.Authenticate(t.Context(), authz.Token{}); !errors.Is(err, authz.ErrNoToken) {
		t.Errorf("no token: got %v", err)
	}
	if _, err := r.ConfigFor(authz.Token{}); !errors.Is(err, authz.ErrNoToken) {
		t.Errorf("config for no token: got %v", err)
	}
}

// Only list and watch have cluster-wide requests, so only they can be decided by the review for all namespaces.
func TestClusterWideAccessImpliesNamespacesOnlyForReads(t *testing.T) {
	s := newFakeAPIServer(t)
	s.reviewAccess = func(spec authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.ResourceAttributes.Namespace == ""}
	}
	r, _ := newReviewer(t, s.config, authz.Options{})
	alice := authz.NewUser(authenticationv1.UserInfo{Username: "alice"})
	cases := map[authz.Attributes]bool{
		{Verb: "list", Resource: "pods", Namespace: "shop"}:            true,
		{Verb: "watch", Resource: "pods", Namespace: "shop"}:           true,
		{Verb: "list", Resource: "pods", Namespace: "shop", Name: "a"}: false,
		{Verb: "get", Resource: "pods", Namespace: "shop"}:             false,
		{Verb: "delete", Resource: "pods", Namespace: "shop"}:          false,
	}
	for a, want := range cases {
		if got, err := r.Allowed(t.Context(), alice, a); got != want || err != nil {
			t.Errorf("%s: got %t, %v; want %t", a, got, err, want)
		}
	}
}

// A flood of unknown tokens uses its own semaphore, not that of known tokens.
func TestUnknownTokensDoNotDelayKnownOnes(t *testing.T) {
	s := newFakeAPIServer(t)
	good := s.reviewToken
	hang := make(chan struct{})
	r, clock := newReviewer(t, s.config, authz.Options{MaxConcurrentReviews: 4, ReviewTimeout: 30 * time.Second})
	known := authz.NewToken("known")
	if _, err := r.Authenticate(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Minute)
	s.set(func() {
		s.reviewToken = func(token string) authenticationv1.TokenReviewStatus {
			if token == "known" {
				return good(token)
			}
			s.mu.Unlock()
			<-hang
			s.mu.Lock()
			return authenticationv1.TokenReviewStatus{}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() { _, _ = r.Authenticate(ctx, authz.NewToken(fmt.Sprintf("garbage%d", i))) })
	}
	eventually(t, "the semaphore of unknown tokens to be full", func() bool { n, _ := s.counts(); return n == 1+4 })
	quick, done := context.WithTimeout(t.Context(), 5*time.Second)
	defer done()
	if _, err := r.Authenticate(quick, known); err != nil {
		t.Errorf("the known token waits: %v", err)
	}
	cancel()
	close(hang)
	wg.Wait()
}

func TestOptionsValidation(t *testing.T) {
	cases := map[string]authz.Options{
		"negative duration":      {TokenTTL: -1},
		"negative limit":         {MaxConcurrentReviews: -1},
		"no time for a re-check": {StaleAfter: 40 * time.Second},
		"results older than 60s": {AccessTTL: time.Minute},
	}
	for name, o := range cases {
		if _, err := authz.New(&rest.Config{Host: "http://localhost"}, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := authz.New(&rest.Config{Host: "http://localhost"}, authz.Options{}); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

func TestConfigForDropsCenterCredentials(t *testing.T) {
	const secret = "center-secret"
	centerConfig := &rest.Config{
		Host: "https://api.example:6443", BearerToken: secret, BearerTokenFile: secret,
		Impersonate:     rest.ImpersonationConfig{UserName: secret, UID: secret, Groups: []string{secret}},
		TLSClientConfig: rest.TLSClientConfig{Insecure: true, ServerName: "api"},
		WrapTransport:   func(rt http.RoundTripper) http.RoundTripper { return rt },
	}
	r, _ := newReviewer(t, centerConfig, authz.Options{})
	got, err := r.ConfigFor(authz.NewToken("callers-own"))
	if err != nil {
		t.Fatal(err)
	}
	if got.BearerToken != "callers-own" || got.Host != centerConfig.Host || got.ServerName != "api" {
		t.Errorf("got %v", got)
	}
	got.BearerToken = ""
	if text := fmt.Sprintf("%#v", *got); strings.Contains(text, secret) || got.WrapTransport != nil {
		t.Errorf("it contains credentials of the center: %s", text)
	}
	other, err := r.ConfigFor(authz.NewToken("somebody-else"))
	if err != nil || other.BearerToken != "somebody-else" {
		t.Errorf("got %v, %v", other, err)
	}
}
